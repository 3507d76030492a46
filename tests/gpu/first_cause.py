"""Prints the certainty and the cause that `cudarun diagnose --json PROGRAM` has named first, and then its first cure.

Reads its standard error, in which the object follows what the program wrote: it begins with the last line that is a brace.
"""

import json
import sys

with open(sys.argv[1], errors="replace") as file:
    text = "\n" + file.read()
first = json.loads(text[text.rindex("\n{\n") :])["causes"][0]
print(first["certainty"], first["cause"])
print(first["cures"][0]["do"] if first["cures"] else "")
