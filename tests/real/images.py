"""Real images answer as their unpacked trees, and on a node as in a container there: tests/real/images.py PATH-TO-cudarun

The image has Python, ctranslate2 and NVIDIA's wheels, and a second layer that removes one of two cuDNNs. It is made with
umoci and copied by skopeo into each form; another is built by buildah. Every verb must give the same JSON for each of them
as for the tree that umoci unpacks. Then the driver of a node is mounted by hand into that tree, and the JSON from inside
must be that of `--root IMAGE --node NODE`. Needs root, umoci, skopeo, buildah and gcc.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from wheels import unpacked

CUDARUN = os.path.abspath(sys.argv[1])
WHEELS = ["ctranslate2==4.6.1", "numpy==2.2.6", "pyyaml==6.0.2", "nvidia-cudnn-cu12==9.1.0.70"]
WHEELS += ["nvidia-cublas-cu12==12.4.5.8", "nvidia-cuda-runtime-cu12==12.4.127"]
OTHER = "nvidia-cudnn-cu12==9.10.2.21"
DRIVER = "550.127.05"
SYSTEM = "/usr/lib/x86_64-linux-gnu"
ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/root",
    "LD_LIBRARY_PATH": "/opt/cudnn/lib",
    "NVIDIA_REQUIRE_CUDA": "cuda>=12.0",
}
EXPLAIN = ["explain", "--json", "python3", "/srv/train.py"]
VERBS = [["list", "--json"], ["doctor", "--json"], EXPLAIN]
failures = 0


def sh(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout


def row(is_good, name, text):
    global failures
    failures += not is_good
    print(f"{'ok' if is_good else 'FAULT'}  {name}: {text}", flush=True)


def without_identity(value):
    """Without what each copy of a file has of its own, and the names of views, which contain that."""
    if isinstance(value, dict):
        return {key: without_identity(one) for key, one in value.items() if key not in ("device", "inode")}
    if isinstance(value, list):
        return [without_identity(one) for one in value]
    return re.sub("/views/[0-9a-f]{24}", "/views/VIEW", value) if isinstance(value, str) else value


def answer(options, verb, env):
    done = subprocess.run([CUDARUN, *options, *verb], env=env, cwd="/", capture_output=True, text=True)
    try:
        return without_identity(json.loads(done.stdout))
    except json.JSONDecodeError:
        return {"status": done.returncode, "error": done.stderr}


def count_of_cudnn(listed):
    return sum(one["family"] == "cudnn" for one in listed["installations"])


def different(one, other, path=""):
    if type(one) is type(other) is dict:
        return [line for key in {*one, *other} for line in different(one.get(key), other.get(key), f"{path}.{key}")]
    if type(one) is type(other) is list and len(one) == len(other):
        return [line for at, pair in enumerate(zip(one, other)) for line in different(*pair, f"{path}[{at}]")]
    return [] if one == other else [f"{path}: {str(one)[:150]} and {str(other)[:150]}"]


def first_layer(root):
    """A small system with Python, as it is here."""
    for directory in ["usr/bin", "usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib/python3/dist-packages", "etc", "srv", "tmp", "opt"]:
        (root / directory).mkdir(parents=True, exist_ok=True)
    for link in ["bin", "lib", "lib64"]:
        (root / link).symlink_to(f"usr/{link}")
    shutil.copy("/usr/bin/python3", root / "usr/bin/python3", follow_symlinks=True)
    standard = f"python3.{sys.version_info[1]}"
    real = pathlib.Path(os.path.realpath("/usr/bin/python3")).name
    shutil.copytree(f"/usr/lib/{real}", root / "usr/lib" / real, symlinks=True)
    modules = list((root / "usr/lib" / real / "lib-dynload").glob("_ctypes*.so"))
    linked = sh("ldd", "/usr/bin/python3", *modules)
    libraries = set(re.findall(r"(/\S+\.so\S*)", linked)) | {"/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/usr/lib/x86_64-linux-gnu/libgcc_s.so.1"}
    for library in libraries:
        if "ld-linux" in library:
            shutil.copy(library, root / "usr/lib64/ld-linux-x86-64.so.2")
        elif pathlib.Path(library).is_file() and not library.endswith(".so:"):
            shutil.copy(library, root / "usr/lib/x86_64-linux-gnu", follow_symlinks=True)
    for wheel in WHEELS:
        shutil.copytree(unpacked(wheel), root / "usr/lib/python3/dist-packages", symlinks=True, dirs_exist_ok=True)
    # The small ones of its libraries: the image is copied many times.
    (root / "opt/cudnn/lib").mkdir(parents=True)
    for library in (unpacked(OTHER) / "nvidia/cudnn/lib").glob("*.so.9"):
        if library.stat().st_size < 30 << 20:
            shutil.copy(library, root / "opt/cudnn/lib")
    (root / "etc/debian_version").write_text("12.5\n")
    (root / "etc/ld.so.conf").write_text("/usr/lib/x86_64-linux-gnu\n")
    (root / "srv/train.py").write_text("import ctranslate2\n")
    sh("/sbin/ldconfig", "-r", root)


def node(work):
    """A root directory with a driver and a GPU, and its description."""
    root = work / "node"
    for directory in [f"{SYSTEM[1:]}", "sys/module/nvidia", "sys/bus/pci/devices/0000:01:00.0", "dev", "etc", "usr/bin"]:
        (root / directory).mkdir(parents=True)
    (root / "sys/module/nvidia/version").write_text(DRIVER + "\n")
    for name, text in [("vendor", "0x10de"), ("device", "0x2330"), ("class", "0x030200")]:
        (root / "sys/bus/pci/devices/0000:01:00.0" / name).write_text(text + "\n")
    for device in ["nvidia0", "nvidiactl", "nvidia-uvm"]:
        (root / "dev" / device).write_text("")
        (root / "dev" / device).chmod(0o666)
    for stem, symbol in [("libcuda", "cuInit"), ("libnvidia-ml", "nvmlInit_v2"), ("libnvidia-ptxjitcompiler", "pj")]:
        file = root / SYSTEM[1:] / f"{stem}.so.{DRIVER}"
        code = f"int {symbol}(void) {{ return 0; }}"
        sh("gcc", "-shared", "-fPIC", "-o", file, f"-Wl,-soname,{stem}.so.1", "-x", "c", "-", input=code)
    sh("/sbin/ldconfig", "-r", root)
    file = work / "node.json"
    sh(CUDARUN, "--root", root, "-q", "doctor", "--save", file, env={"PATH": "/usr/bin", "HOME": "/root"})
    return root, file


def inside(tree, root):
    """What `explain` says in a container: the driver mounted by hand, and then ldconfig."""
    shutil.copy(CUDARUN, tree / "usr/bin/cudarun")
    mounts = [f"mount -t proc none {tree}/proc", f"mount --bind {root}/sys {tree}/sys"]
    for file in sorted((root / SYSTEM[1:]).glob(f"*.so.{DRIVER}")):
        mounts.append(f"touch {tree}{SYSTEM}/{file.name} && mount --bind {file} {tree}{SYSTEM}/{file.name}")
    for device in (root / "dev").iterdir():
        mounts.append(f"touch {tree}/dev/{device.name} && mount --bind {device} {tree}/dev/{device.name}")
    for directory in ["proc", "sys", "dev"]:
        (tree / directory).mkdir(exist_ok=True)
    libraries = [f"/sbin/ldconfig -r {tree}", f"ln -sf libcuda.so.1 {tree}{SYSTEM}/libcuda.so"]
    words = " ".join(f"'{word}'" for word in EXPLAIN)
    script = " && ".join([*mounts, *libraries, f"cd / && exec /usr/sbin/chroot {tree} /usr/bin/cudarun {words}"])
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], env=ENV, capture_output=True, text=True)
    try:
        return without_identity(json.loads(done.stdout))
    except json.JSONDecodeError:
        return {"status": done.returncode, "error": done.stderr}


def copies(work, layout, tree):
    """The second version of the image in every form, by what a reader of the report calls it."""
    copy = lambda to, *words: sh("skopeo", "copy", "-q", "--insecure-policy", *words, f"oci:{layout}:v2", to)
    copy(f"oci-archive:{work}/oci.tar:v2")
    copy(f"docker-archive:{work}/docker.tar:app:v2")
    copy(f"oci:{work}/zstd:v2", "--dest-compress", "--dest-compress-format", "zstd")
    context = work / "context"
    context.mkdir()
    sh("cp", "-a", f"{tree}/.", context)
    lines = ["FROM scratch", "COPY . /", *(f'ENV {name}="{value}"' for name, value in ENV.items())]
    (context / "Dockerfile").write_text("\n".join(lines) + "\n")
    (context / ".dockerignore").write_text("Dockerfile\n.dockerignore\n")
    store = ["buildah", "--root", work / "store", "--runroot", work / "run", "--storage-driver", "vfs"]
    sh(*store, "bud", "--isolation", "chroot", "-q", "-t", "app:v2", context)
    shutil.rmtree(context)
    sh(*store, "push", "-q", "app:v2", f"docker-archive:{work}/buildah.tar:app:v2")
    shutil.rmtree(work / "store", ignore_errors=True)
    return {
        "umoci's layout": f"oci:{layout}:v2",
        "an OCI archive": f"{work}/oci.tar",
        "a Docker archive": f"{work}/docker.tar",
        "zstandard": f"oci:{work}/zstd",
        "buildah's": f"{work}/buildah.tar",
    }


def blocks(work, image, description, env):
    """The commands of docs/images.md."""
    place = work / "blocks"
    (place / "machines").mkdir(parents=True)
    (place / "train.tar").symlink_to(image)
    shutil.copy(description, place / "machines/gpu07.json")
    (place / "cudarun").symlink_to(CUDARUN)
    env = {**env, "PATH": f"{place}:/usr/bin:/bin"}
    document = pathlib.Path(__file__).resolve().parents[2] / "docs/images.md"
    marked = re.findall(r"<!-- run by tests/real/images.py as (\S+) -->\n```sh\n(.*?)```", document.read_text(), re.DOTALL)
    shown = {"explain": "cuDNN", "layout": "", "node": DRIVER, "fleet": "works on 1 of 1 machine"}
    for name, code in marked:
        done = subprocess.run(["bash", "-e", "-c", code], env=env, cwd=place, capture_output=True, text=True)
        text = done.stdout + done.stderr
        # `doctor` says 1: the first layer's cuDNN and the bundled one differ.
        is_good = done.returncode in ((0, 1) if name == "layout" else (0,)) and shown[name] in text
        row(is_good, f"docs/images.md, {name}", f"status {done.returncode}" if is_good else text[-700:])
    row(len(marked) == len(shown), "docs/images.md", f"{len(marked)} blocks")


def main():
    lacks = [tool for tool in ("umoci", "skopeo", "buildah", "gcc") if not shutil.which(tool)]
    if lacks or os.geteuid() != 0:
        sys.exit(f"skipped: needs root and {', '.join(lacks) or 'nothing else'}")
    with tempfile.TemporaryDirectory(dir=os.environ.get("CUDARUN_TESTS_TMP")) as work:
        work = pathlib.Path(work)
        layout = work / "layout"
        sh("umoci", "init", "--layout", layout)
        sh("umoci", "new", "--image", f"{layout}:v1")
        sh("umoci", "unpack", "--image", f"{layout}:v1", work / "bundle")
        first_layer(work / "bundle/rootfs")
        sh("umoci", "repack", "--refresh-bundle", "--image", f"{layout}:v1", work / "bundle")
        # The second layer: whiteouts, a replaced file, a directory that is emptied.
        rootfs = work / "bundle/rootfs"
        shutil.rmtree(rootfs / "opt/cudnn/lib")
        (rootfs / "opt/cudnn/lib").mkdir()
        (rootfs / "srv/train.py").write_text("import ctypes\nimport ctranslate2\nctypes.CDLL('libcudnn.so.9')\n")
        sh("umoci", "repack", "--image", f"{layout}:v2", work / "bundle")
        options = [word for name, value in ENV.items() for word in ("--config.env", f"{name}={value}")]
        for tag in ["v1", "v2"]:
            sh("umoci", "config", "--image", f"{layout}:{tag}", *options)
        shutil.rmtree(work / "bundle")

        sh("umoci", "unpack", "--image", f"{layout}:v2", work / "unpacked")
        tree = work / "unpacked/rootfs"
        forms = copies(work, layout, tree)
        person = {"PATH": "/usr/bin:/bin", "HOME": "/root", "XDG_CACHE_HOME": str(work / "cache")}
        for verb in VERBS:
            expected = answer(["--root", str(tree)], verb, ENV)
            for name, image in forms.items():
                faults = different(expected, answer(["--root", image], verb, person))
                row(not faults, f"{verb[0]}, {name}", "; ".join(faults[:4]) or "as the unpacked tree")
        cudnn = [one["picked"]["version"] for one in expected["families"] if one["family"] == "cudnn" and one.get("picked")]
        row(len(cudnn) == 1, "the control", f"{expected['decision']}, cuDNN {cudnn}")
        counts = [count_of_cudnn(answer(["--root", f"oci:{layout}:{tag}"], ["list", "--json"], person)) for tag in ["v1", "v2"]]
        row(counts == [3, 2], "the control of the second layer", f"{counts} copies of cuDNN without and with it (one is in ctranslate2.libs)")

        root, description = node(work)
        image = forms["a Docker archive"]
        on_node = answer(["--root", image, "--node", str(description)], EXPLAIN, person)
        # The image gets stand-ins for the driver's files, of which only the names are known. The module's name is made of its
        # content, which names the cudarun that it starts: in the container, that is another file.
        differing = (".size: ", ".mode: ", ".build_id: ", ".environment.LD_AUDIT: ")
        faults = [line for line in different(inside(tree, root), on_node) if not any(word in line for word in differing)]
        row(not faults, "on the node", "; ".join(faults[:6]) or "as in a container there")
        alone = answer(["--root", image], EXPLAIN, person)
        blocks(work, image, description, person)
        row(on_node["driver"] and not alone["driver"], "the control", "without the node there is no driver")
    sys.exit(failures > 0)


main()
