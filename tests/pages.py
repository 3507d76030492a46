#!/usr/bin/env python3
"""The pages of --html in a real browser: tests/pages.py [PATH-TO-cudarun [DIRECTORY]]

Opens the page of each verb in headless Chromium at three widths, light and dark: nothing but the text, which scrolls in its own
box, is wider than the window, no message is on the console, nothing is requested but the page itself, and each picture has a title
and a description. Words of a hostile machine stay words. Needs cargo, which makes the machines. With DIRECTORY, screenshots are left there.
"""

import base64
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
CUDARUN = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parent / "target" / "release" / "cudarun").resolve()
SHOTS = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
WIDTHS = [360, 800, 1440]
PATIENCE = 60
MIXED = """
[[file]]
path = "/opt/old/lib/libcublasLt.so.12"
elf = { soname = "libcublasLt.so.12", exports = ["cublasLtCreate"] }

[[file]]
path = "/opt/old/lib/libcudnn_ops.so.9"
elf = { soname = "libcudnn_ops.so.9", constants = ["cudnn_version_9_1_0_"] }
"""
HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(2)>\"'`|&"
LOOK = """(() => {
    const width = document.documentElement.clientWidth;
    const wide = [...document.querySelectorAll('body :not(pre *)')].filter(e => e.getBoundingClientRect().right > width + 1);
    const pictures = [...document.querySelectorAll('svg')];
    const outside = [...document.querySelectorAll('svg rect')].filter(
        e => e.nextElementSibling.getBoundingClientRect().right > e.getBoundingClientRect().right);
    return JSON.stringify({
        page: document.documentElement.scrollWidth - width,
        wide: wide.slice(0, 3).map(e => e.tagName + ' ' + e.textContent.slice(0, 60)),
        pictures: pictures.length,
        outside: outside.slice(0, 3).map(e => e.nextElementSibling.textContent),
        told: pictures.every(e => e.querySelector('title').textContent && e.querySelector('desc').textContent),
        scripts: document.scripts.length + document.images.length,
        ink: getComputedStyle(document.body).color,
        paper: getComputedStyle(document.body).backgroundColor,
    });
})()"""


class Browser:
    """Chromium, told by a pair of pipes."""

    def __init__(self, program, profile):
        to_read, self.to = os.pipe()
        self.source, from_write = os.pipe()

        def pipes():
            # The browser reads its third descriptor and writes its fourth.
            kept = os.dup(to_read), os.dup(from_write)
            os.dup2(kept[0], 3)
            os.dup2(kept[1], 4)

        words = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]
        words += ["--disable-extensions", "--disable-background-networking", f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(
            words, preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(from_write)
        self.number, self.session, self.rest, self.events = 0, None, b"", []

    def tell(self, method, **what):
        self.number += 1
        message = {"id": self.number, "method": method, "params": what}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        return self.await_(lambda answer: answer.get("id") == self.number)["result"]

    def await_(self, is_it):
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE:
            while b"\0" in self.rest:
                first, self.rest = self.rest.split(b"\0", 1)
                message = json.loads(first)
                if "method" in message:
                    self.events.append(message)
                if is_it(message):
                    return message
            self.rest += os.read(self.source, 1 << 20)
        raise TimeoutError("the browser does not answer")

    def open(self, file, width, scheme):
        self.session = None
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        session = self.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.session, self.events = session, []
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.tell(f"{domain}.enable")
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.tell("Page.navigate", url=file.as_uri())
        if not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.await_(lambda message: message.get("method") == "Page.loadEventFired")
        looked = json.loads(self.tell("Runtime.evaluate", expression=LOOK)["result"]["value"])
        looked["requests"] = sorted({
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        } - {file.as_uri()} - {"data:,"})
        says = ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening"]
        looked["said"] = [event["params"] for event in self.events if event["method"] in says]
        shot = None
        if SHOTS:
            size = self.tell("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": width, "height": min(size["height"], 4000), "scale": 1}
            shot = base64.b64decode(self.tell("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"])
        self.session = None
        self.tell("Target.closeTarget", targetId=target)
        return looked, shot


def luminance(colour):
    parts = [int(part) / 255 for part in colour[4:-1].split(",")[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


def machine(work, name, text):
    """The options that look at a machine made of text, and its environment."""
    (work / f"{name}.toml").write_text(text)
    build = ["cargo", "run", "--quiet", "--locked", "--manifest-path", HERE.parent / "Cargo.toml", "--example", "measure", "--"]
    subprocess.run([*build, "files", work / f"{name}.toml", work / name], check=True)
    environment = {"HOME": "/home/user", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **tomllib.loads(text)["env"]}
    return ["--root", work / name], environment


def pages(work):
    """A page of each verb, with the number of its pictures."""
    nodes = work / "nodes"
    nodes.mkdir()
    torch = (HERE / "machines" / "torch.toml").read_text()
    # Half of a cuDNN and of a cuBLAS comes before the ones of the wheels.
    mixed = torch.replace("[env]", '[env]\nLD_LIBRARY_PATH = "/opt/old/lib"', 1) + MIXED
    hostile = torch.replace("[env]", f"[env]\nLD_LIBRARY_PATH = {json.dumps('/opt/' + HOSTILE)}", 1)
    machines = {name: machine(work, name, text) for name, text in [("gpu01", torch), ("gpu02", mixed), ("hostile", hostile)]}
    torch_program = ["python3", "-c", "import torch"]
    for name in ["gpu01", "gpu02"]:
        before, environment = machines[name]
        save = ["-q", "doctor", "--save-in", nodes, "--name", name, "--for", shlex.join(torch_program)]
        subprocess.run([CUDARUN, *before, *save], env=environment, check=True)
    (nodes / "gpu03.json").write_text("no description " + HOSTILE)
    here = ([], {"HOME": str(work), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})
    message = f"ImportError: libcudart.so.12: cannot open shared object file: {HOSTILE}"
    made = {
        "explain": (machines["gpu01"], ["explain"], torch_program, 2),
        "mixed": (machines["gpu02"], ["explain"], torch_program, 2),
        "refused": (machines["gpu01"], ["explain", "--require", "cudnn>=99"], torch_program, 1),
        "doctor": (machines["gpu02"], ["doctor"], [], 0),
        "described": (([*here[0], "--node", nodes / "gpu02.json"], here[1]), ["doctor"], [], 0),
        "diagnose": (here, ["diagnose", "--text", message], [], 0),
        "hostile": (machines["hostile"], ["doctor"], [], 0),
        "fleet": (here, ["fleet", "--program", shlex.join(torch_program), nodes], [], 0),
    }
    for name, ((root, environment), before, after, pictures) in made.items():
        before = [*root, *before]
        file = work / f"{name}.html"
        words = [CUDARUN, *before, "--html", file, *after]
        run = subprocess.run(words, env=environment, capture_output=True, text=True)
        if not file.exists() or run.stdout:
            sys.exit(f"{name}: status {run.returncode}\n{run.stdout}{run.stderr}")
        yield name, file, pictures


def main():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        print("skipped: chromium is not here")
        sys.exit(1 if os.environ.get("CUDARUN_TESTS_ALL") else 0)
    work = pathlib.Path(tempfile.mkdtemp())
    browser = Browser(program, work / "profile")
    faults = 0
    try:
        for name, file, pictures in pages(work):
            seen = {}
            for width, scheme in [(width, scheme) for width in WIDTHS for scheme in ["light", "dark"]]:
                looked, shot = browser.open(file, width, scheme)
                if shot:
                    SHOTS.mkdir(parents=True, exist_ok=True)
                    (SHOTS / f"{name}-{width}-{scheme}.png").write_bytes(shot)
                wrong = [
                    what
                    for what, holds in {
                        f"wider than the window: {looked['wide']}": looked["page"] <= 0 and not looked["wide"],
                        f"{looked['pictures']} pictures": looked["pictures"] == pictures and looked["told"],
                        f"outside of its box: {looked['outside']}": not looked["outside"],
                        "a script or an image": looked["scripts"] == 0,
                        f"requests {looked['requests']}": not looked["requests"],
                        f"says {looked['said']}": not looked["said"],
                        "too little contrast": contrast(looked["ink"], looked["paper"]) > 7,
                    }.items()
                    if not holds
                ]
                seen[scheme] = looked["paper"]
                for what in wrong:
                    faults += 1
                    print(f"FAULT  {name}, {width}, {scheme}: {what}")
            if seen["dark"] == seen["light"]:
                faults += 1
                print(f"FAULT  {name}: dark is as light")
            print(f"looked at {name}: {file.stat().st_size} bytes")
    finally:
        browser.process.kill()
        browser.process.wait()
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(f"{faults} faults" if faults else 0)


if __name__ == "__main__":
    main()
