"""What a Python process has loaded of NVIDIA's libraries, asked of the cudarun beside it.

    import cudarun
    cudarun.check()     # in a notebook, a table of what this process has mapped
    cudarun.report()    # the dict of `cudarun doctor --json`

Importing it loads no library and changes nothing; neither do its functions. See docs/python.md.
"""

from ._program import Error, report
from ._running import Check, check

__all__ = ["Check", "Error", "check", "report"]
