"""Real CUDA toolkits for tests/real/build.py, made once in the cache: of wheels, and of Debian's packages.

Debian's are unpacked, without the libraries that no test links: 450 MB of the 1.9 GB that are downloaded. `debian` starts a
program where one of them is installed, in a namespace of its own.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from wheels import CACHE, alone, link, unpacked

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
NVCC, NVVM, CRT = "nvidia-cuda-nvcc==13.0.88", "nvidia-nvvm==13.0.88", "nvidia-cuda-crt==13.0.88"
RUNTIME, CCCL = "nvidia-cuda-runtime==13.0.96", "nvidia-cuda-cccl==13.0.85"
NEWER_NVVM, NEWER_CRT = "nvidia-nvvm==13.5.37", "nvidia-cuda-crt==13.5.37"
CCCL_DEV = ["libcub-dev", "libcu++-dev", "libthrust-dev"]
# By suite: the packages, and what is taken of the largest one.
DEBIAN = {
    "bookworm": ["nvidia-cuda-toolkit", "libnvvm4", "libcudart11.0", *CCCL_DEV, "nvidia-cuda-dev"],
    "trixie": ["nvidia-cuda-toolkit", "libnvvm4", "libcudart12", *CCCL_DEV, "nvidia-cuda-dev"],
}
WANTED = ["./usr/include/*", "*/libcudart*", "*/libcudadevrt*", "*/libculibos*", "*/stubs/libcuda.so"]


def of_wheels(site, *wheels):
    """The toolkit below a site-packages directory that is made of these wheels."""
    for wheel in wheels:
        shutil.copytree(unpacked(wheel), site, copy_function=copy, dirs_exist_ok=True, symlinks=True)
    root = Path(site) / "nvidia" / "cu13"
    for program in [*root.glob("bin/*"), *root.glob("nvvm/bin/*")]:
        if program.is_file():
            program.chmod(0o755)
    return root


def copy(source, destination):
    """Small files are changed by a test, and large ones are not."""
    if os.path.getsize(source) > 1 << 20:
        link(source, destination)
    else:
        shutil.copy(source, destination)


def wheels13(site):
    return of_wheels(site, NVCC, NVVM, CRT, RUNTIME, CCCL)


def trap13(site):
    """What `pip install nvidia-cuda-nvcc==13.0.88` installs: its requirements have no versions."""
    return of_wheels(site, NVCC, NEWER_NVVM, NEWER_CRT, RUNTIME, CCCL)


def conda13(prefix, root):
    """The layout of conda's packages, with the files of another toolkit."""
    target = Path(prefix) / "targets" / "x86_64-linux"
    target.mkdir(parents=True)
    for name in ["bin", "nvvm"]:
        shutil.copytree(root / name, Path(prefix) / name, copy_function=os.link)
    shutil.copytree(root / "include", target / "include", copy_function=os.link)
    shutil.copytree(root / "lib", target / "lib", copy_function=os.link)
    (target / "lib" / "libcudart.so").symlink_to("libcudart.so.13")
    (Path(prefix) / "conda-meta").mkdir()
    (Path(prefix) / "conda-meta" / "history").touch()
    return Path(prefix)


def debian(suite):
    """The root of Debian's toolkit of a suite, or None where it is not in the cache and may not be fetched."""
    final = CACHE / "toolkits" / suite
    if final.is_dir():
        return final
    if os.environ.get("CUDARUN_REAL_LARGE") != "1" or not shutil.which("apt-get"):
        return None
    final.parent.mkdir(parents=True, exist_ok=True)
    with alone(suite), tempfile.TemporaryDirectory(dir=CACHE) as work:
        print(f"downloading Debian's toolkit of {suite}", flush=True)
        work = Path(work)
        for directory in ["parts", "state/lists/partial", "cache/archives/partial", "debs", "root"]:
            (work / directory).mkdir(parents=True)
        (work / "parts" / "one.sources").write_text(
            f"Types: deb\nURIs: {mirror()}\nSuites: {suite}\nComponents: main contrib non-free\nSigned-By: {KEYRING}\n"
        )
        settings = {
            "Dir::Etc::SourceList": "/dev/null", "Dir::Etc::SourceParts": work / "parts", "Dir::State": work / "state",
            "Dir::State::status": "/dev/null", "Dir::Cache": work / "cache", "APT::Sandbox::User": "root",
        }
        apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
        subprocess.run([*apt, "update"], check=True)
        subprocess.run([*apt, "download", *DEBIAN[suite]], cwd=work / "debs", check=True)
        for deb in (work / "debs").iterdir():
            if deb.name.startswith("nvidia-cuda-dev_"):
                command = 'dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --wildcards "${@:3}"'
                subprocess.run(["bash", "-c", command, "bash", deb, work / "root", *WANTED], check=True)
            else:
                subprocess.run(["dpkg-deb", "-x", deb, work / "root"], check=True)
        os.rename(work / "root", final)
    return final


def mirror():
    """The mirror that this machine's own packages come from."""
    sources = [*Path("/etc/apt/sources.list.d").glob("*"), Path("/etc/apt/sources.list")]
    words = " ".join(source.read_text() for source in sources if source.is_file()).split()
    return next(word for word in words if word.startswith(("http://", "https://")) and word.rstrip("/").endswith("/debian"))


def plain(root, debian):
    """NVIDIA's own layout, as its installer makes it, with the files of one of Debian's toolkits."""
    root, own = Path(root), debian / "usr" / "lib" / "nvidia-cuda-toolkit"
    for directory in ["bin", "nvvm/bin", "nvvm/libdevice", "lib64"]:
        (root / directory).mkdir(parents=True)
    for program in ["bin2c", "cudafe++", "fatbinary", "nvlink", "ptxas"]:
        os.link(debian / "usr" / "bin" / program, root / "bin" / program)
    os.link(own / "bin" / "nvcc", root / "bin" / "nvcc")
    os.link(own / "bin" / "cicc", root / "nvvm" / "bin" / "cicc")
    os.link(own / "libdevice" / "libdevice.10.bc", root / "nvvm" / "libdevice" / "libdevice.10.bc")
    shutil.copytree(own / "bin" / "crt", root / "bin" / "crt", copy_function=os.link)
    shutil.copytree(debian / "usr" / "include", root / "include", copy_function=os.link, symlinks=True)
    for library in (debian / "usr" / "lib" / "x86_64-linux-gnu").iterdir():
        if library.is_dir():
            shutil.copytree(library, root / "lib64" / library.name, copy_function=os.link)
        else:
            os.link(library, root / "lib64" / library.name, follow_symlinks=False)
    shutil.copy(unpacked(NVCC) / "nvidia" / "cu13" / "bin" / "nvcc.profile", root / "bin")
    return root


def installed(root):
    """The words before a command that start it where the packages below `root` are installed."""
    script = 'for d in usr etc; do mount -t overlay overlay -o "lowerdir=$0/$d:/$d" /$d || exit 99; done; exec "$@"'
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", script, str(root)]
