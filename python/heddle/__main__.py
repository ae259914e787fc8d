"""The command line: python -m heddle explain matmul:512x512x512"""

import os
import pathlib
import sys

from ._errors import Error


def main():
    program = pathlib.Path(__file__).parent / "bin" / "heddle"
    if not program.exists():
        raise Error(f"the command line is not built: there is no {program}", kind="runtime", help="build the target heddle_cli")
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
