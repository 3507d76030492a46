"""Reads a program's output: do all files of cuDNN that it had mapped stand in one directory? only.py OUTPUT DIRECTORY

Prints the directories that they stand in, and exits with 0 when it is that one alone.
"""

import os
import sys

with open(sys.argv[1], errors="replace") as file:
    mapped = {os.path.realpath(line.strip()) for line in file if line.startswith("/") and "libcudnn" in line}
directories = sorted({os.path.dirname(path) for path in mapped})
print(f"{len(mapped)} files of cuDNN from {' and '.join(directories) or 'nowhere'}")
sys.exit(directories != [os.path.realpath(sys.argv[2])])
