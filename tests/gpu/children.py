"""Runs a program, then another one in an environment of its own: children.py OWN-SCRIPT CHILD-PYTHON CHILD-SCRIPT OUTPUT

The output of the child goes to OUTPUT, so that what each of them has mapped is told apart. Ends as the worse of the two.
"""

import os
import runpy
import subprocess
import sys

own, python, child, output = sys.argv[1:]
sys.path.insert(0, os.path.dirname(own))
status = 0
try:
    runpy.run_path(own, run_name="__main__")
except SystemExit as end:
    status = int(end.code or 0)
with open(output, "w") as file:
    status = max(status, subprocess.call([python, child], stdout=file, stderr=subprocess.STDOUT))
sys.exit(status)
