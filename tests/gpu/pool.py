"""Runs a program in a process of a spawn pool: pool.py SCRIPT"""

import multiprocessing
import os
import runpy
import sys


def run(script):
    sys.path.insert(0, os.path.dirname(script))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        sys.exit(pool.apply(run, sys.argv[1:]))
