"""What `launch` starts in each rank: it joins the other ranks, then runs the script.

    python -m tinygraft.collectives.rank_start script.py --its arguments
    python -m tinygraft.collectives.rank_start -m module --its arguments

A rank that fails in its first lines, before the script asks for `world()`, ends the others then, which would wait for
it.
"""

from __future__ import annotations

import os
import runpy
import sys

from tinygraft.collectives.engines import world


def main() -> None:
    """Join, and run the script or module that the arguments name as python would."""
    sys.argv.pop(0)
    is_module = sys.argv[0] == "-m"
    if is_module:
        sys.argv.pop(0)
        sys.path[0] = os.getcwd()
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    world()
    if is_module:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
