"""`python -m cudarun ARGS…`: becomes the program cudarun of this installation."""

import os
import signal
import sys

from ._program import INSTALL, Error, found


def main() -> int:
    """The status of cudarun itself where it cannot start; else the process is another program's."""
    try:
        program = found()
        # Python ignores these, and a program would inherit it.
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_DFL)
        try:
            os.execv(program, [program, *sys.argv[1:]])
        except OSError as error:
            raise Error(f"{program} does not start: {error.strerror}", INSTALL) from error
    except Error as error:
        print(f"cudarun: {error}", file=sys.stderr)
    return 125


if __name__ == "__main__":
    sys.exit(main())
