"""The time that cudarun adds to a start, on a GPU machine with torch, jax and cupy: tests/gpu/cost.py PATH-TO-cudarun [numpy|torch|training]…

Medians of interleaved runs, each beside its limit: the first start of a program (no cache), a kept start, and a training
script with data-loading workers in each mode. Exits with 1 when one is over its limit.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = int(os.environ.get("ROUNDS", "7"))
TRAINING = """
import torch
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    data = TensorDataset(torch.randn(4096, 3, 32, 32), torch.randint(10, (4096,)))
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10)).cuda()
    model(torch.randn(1, 3, 32, 32, device="cuda"))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(1):
        for images, labels in DataLoader(data, batch_size=64, num_workers=4):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda()).backward()
            optimiser.step()
"""


def timed(command, environment):
    began = time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return time.perf_counter() - began


def main():
    cudarun = str(Path(sys.argv[1]).resolve())
    work = Path(tempfile.mkdtemp())
    parts = sys.argv[2:] or ["numpy", "torch", "training"]
    failed = False

    def compare(label, command, arms, rounds, limits):
        """`arms` maps a name to variables, and to True if each start is the first one."""
        nonlocal failed
        times = {name: [] for name in ["without", *arms]}
        environments = {
            name: dict(os.environ, XDG_CACHE_HOME=str(work / name), **variables)
            for name, (variables, _) in arms.items()
        }
        for arm, (_, is_first) in arms.items():
            if not is_first:
                # cudarun does not keep a start if a file changed within the last clock tick.
                for _ in range(2):
                    timed([cudarun, *command], environments[arm])
                    time.sleep(2.5)
        for _ in range(rounds):
            times["without"].append(timed(command, os.environ))
            for arm, (_, is_first) in arms.items():
                if is_first:
                    shutil.rmtree(work / arm, ignore_errors=True)
                times[arm].append(timed([cudarun, *command], environments[arm]))
        base = statistics.median(times["without"])
        for arm, (kind, limit) in limits.items():
            median = statistics.median(times[arm])
            value = median / base if kind == "x" else median - base
            verdict = "ok" if value <= limit else "OVER"
            failed |= value > limit
            unit = "x" if kind == "x" else "s more"
            print(
                f"{verdict:4} {label:30} {arm:8} {value:6.3f} {unit:6} (limit {limit}); without {base:.3f} s, "
                f"spread {min(times['without']):.3f} to {max(times['without']):.3f} s, here {min(times[arm]):.3f} to {max(times[arm]):.3f} s",
                flush=True,
            )

    try:
        both = {"cold": ({}, True), "kept": ({}, False)}
        if "numpy" in parts:
            limits = {"cold": ("x", 1.3), "kept": ("x", 1.03)}
            compare("import numpy", [sys.executable, "-c", "import numpy"], both, 3 * ROUNDS, limits)
        if "torch" in parts:
            limits = {"cold": ("s", 0.6), "kept": ("x", 1.02)}
            compare("import torch", [sys.executable, "-c", "import torch"], both, ROUNDS, limits)
        if "training" in parts:
            script = work / "train.py"
            script.write_text(TRAINING)
            modes = {mode: ({"CUDARUN_PIN_MODE": mode}, False) for mode in ["view", "audit"]}
            limits = dict.fromkeys(modes, ("x", 1.02))
            compare("training with workers", [sys.executable, str(script)], modes, ROUNDS, limits)
    finally:
        shutil.rmtree(work)
    return int(failed)


sys.exit(main())
