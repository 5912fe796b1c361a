"""tinygraft conformance: run the tests that every device has to pass on one device."""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec
from typing import Any

MISSING = "the conformance kit needs pytest, which is not installed\n  fix: pip install 'pytest>=8.2'"


def add_command(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add `conformance` to the parser."""
    parser = subparsers.add_parser(
        "conformance",
        help="run the tests that every device passes",
        description="Run the conformance kit on a device, level by level: 0 spec, 1 render, 2 memory, 3 ops, "
        "4 optional, 5 program. What the device does not declare is counted and not asked of it. Exit code 0: no "
        "failure; 1: a test failed; 2: the device cannot be tested, or no test was found.",
    )
    add = parser.add_argument
    add("--device", required=True, metavar="NAME", help="the device to test, NAME or NAME:ordinal")
    add("--level", default="", metavar="LEVELS", help="only these: a number or name, 0-2, or memory,5")
    add("--json", default="", metavar="FILE", help="write the counts there")
    add("--xfail", default="", metavar="FILE", help="known defects (default: conformance.toml in this folder)")
    add("-k", default="", metavar="EXPRESSION", dest="expression", help="only tests whose names match, as of pytest")
    add("-x", action="store_true", dest="first", help="stop at the first failure")
    add("-v", "--verbose", action="store_true", help="a line for each test")
    add("--require-device", action="store_true", help="a device that is not here is an error")
    add("--probe-undeclared", action="store_true", help="try what the device does not declare, and say what works")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the kit with pytest in this process. Returns the exit code of the command."""
    if find_spec("pytest") is None:
        print(MISSING, file=sys.stderr)
        return 2
    import pytest

    from tinygraft.conformance.opened import open_device

    opened = open_device(arguments.device)
    if opened.backend is None and (arguments.require_device or not opened.absent):
        print(opened.reason, file=sys.stderr)
        return 2
    # this module has no pytest hooks: as a plugin it tells the kit that its options have the names of this command
    code = int(pytest.main(_pytest_arguments(arguments, opened.name), plugins=[sys.modules[__name__]]))
    if code == pytest.ExitCode.NO_TESTS_COLLECTED:
        print("no test of the kit has such a name in these levels", file=sys.stderr)
    if code == pytest.ExitCode.INTERRUPTED:
        return 130  # Ctrl-C, as of every command
    return code if code in (0, 1) else 2


def _pytest_arguments(arguments: argparse.Namespace, device: str) -> list[str]:
    """Return the arguments for pytest. Of the files in this folder only a conformance.toml has an effect."""
    found = ["-p", "tinygraft.conformance.plugin", "--pyargs", "tinygraft.conformance.test_device",
             "-c", os.devnull, "--rootdir", os.getcwd(), "--noconftest", "--import-mode=importlib",
             "-p", "no:cacheprovider", "--tb=short", f"--tinygraft-device={device}"]  # fmt: skip
    values = {
        "--tinygraft-level": arguments.level,
        "--tinygraft-json": arguments.json,
        "--tinygraft-xfail": arguments.xfail,
        "-k": arguments.expression,
    }
    found += [text for option, value in values.items() if value for text in (option, value)]
    flags = {
        "-x": arguments.first,
        "--tinygraft-require-device": arguments.require_device,
        "--tinygraft-probe-undeclared": arguments.probe_undeclared,
    }
    found += [option for option, is_set in flags.items() if is_set]
    return [*found, "-v" if arguments.verbose else "-q"]
