#!/usr/bin/env python3
"""Opens NVIDIA's libraries by name, as programs do, and prints each one that it got and from where.

    cudarun -v python3 examples/which_cudnn.py
"""

import ctypes

NAMES = [
    "libcuda.so.1",
    "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0",
    "libcublas.so.13", "libcublas.so.12", "libcublas.so.11",
    "libcudnn.so.9", "libcudnn.so.8",
    "libnccl.so.2",
]


def main():
    opened = {}
    for name in NAMES:
        try:
            opened[name] = ctypes.CDLL(name)
        except OSError:
            pass
    for name, library in opened.items():
        if name.startswith("libcudnn."):
            library.cudnnGetVersion.restype = ctypes.c_size_t
            print("cuDNN", library.cudnnGetVersion())
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[-1].strip() for line in maps if "/lib" in line}
    stems = ("libcuda", "libcudart", "libcublas", "libcudnn", "libnccl", "libnvrtc", "libnvidia-")
    found = sorted(path for path in paths if path.rsplit("/", 1)[-1].startswith(stems))
    print("\n".join(found) or "no NVIDIA library here")


if __name__ == "__main__":
    main()
