"""For every test: graphs are checked at each stage (SPEC=2), disk caches start empty, and what is missing is said.

A test that needs a C compiler, the native extension, an OpenCL driver or a package index that pip can ask is marked
`@pytest.mark.needs("cc")`, `needs("ext")`, `needs("opencl")` or `needs("index")`. It is skipped, with one line in the
summary, where there is none; TINYGRAFT_REQUIRE=cc,ext,opencl,index turns these skips into failures.
The fixture golden compares text with a checked-in file, which `pytest --update-golden` writes anew; a test that presses
Ctrl-C asks for the fixture ctrl_c.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache

import pytest

os.environ.setdefault("SPEC", "2")
_cache_folder = tempfile.mkdtemp(prefix="tinygraft-test-cache-")
os.environ["TINYGRAFT_CACHE"] = _cache_folder
os.environ["POCL_CACHE_DIR"] = os.path.join(_cache_folder, "pocl")  # not what a worker of pytest-xdist inherits
pytest_plugins = ["tinygraft.conformance.plugin"]  # here and not by -p: it reads the settings, and so comes after them
REQUIRED = {name for name in os.environ.get("TINYGRAFT_REQUIRE", "").split(",") if name}


@cache
def missing(need: str) -> str | None:
    """Why something a test needs is not here; None when it is."""
    if need == "cc":
        compilers = [os.environ["CC"].split()[0]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
        found = any(shutil.which(compiler) for compiler in compilers)
        return None if found else f"no C compiler (not on PATH: {', '.join(compilers)})"
    if need == "ext":
        try:
            import tinygraft_cpu._native  # noqa: F401
        except ImportError as error:
            return f"no extension ({error})"
        return None
    if need == "opencl":
        try:
            from tinygraft_opencl.probe import probe
        except ImportError as error:
            return f"no OpenCL plugin ({error})"
        found = probe()
        return None if found.ok else f"no OpenCL ({found.detail})"
    if need == "index":
        with tempfile.TemporaryDirectory() as folder:
            ask = [sys.executable, "-m", "pip", "download", "--quiet", "--retries", "0", "--timeout", "10", "--no-deps"]
            done = subprocess.run([*ask, "--dest", folder, "pluggy"], capture_output=True, text=True)
        words = done.stderr.strip().splitlines() or ["it said nothing"]
        return None if done.returncode == 0 else f"no package index (pip cannot download pluggy: {words[-1]})"
    raise pytest.UsageError(f"a test needs {need!r}; conftest.py knows cc, ext, opencl and index")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option that refreshes golden files, and that of the lanes of packaging."""
    parser.addoption("--update-golden", action="store_true", help="write golden files anew instead of comparing")
    parser.addoption("--whole", action="store_true", help="packages run the whole conformance kit, not quick levels")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """golden(name, text) compares text with the file golden/name beside the test, or writes it with --update-golden."""

    def compare(name: str, text: str) -> None:
        path = request.path.parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"there is no {path}; pytest --update-golden writes it"
        assert text == path.read_text(), f"{path} differs; if that is meant, pytest --update-golden writes it anew"

    return compare


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, here and in processes that are started: a shell's background job ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def nothing_stays_on() -> Iterator[None]:
    """A test that leaves a setting, training mode or no_grad other than it was fails, and no later one does."""
    from tinygraft.config import SETTINGS
    from tinygraft.tensor.quiet import is_quiet

    before = {name: setting.value for name, setting in SETTINGS.items()}
    yield
    changed = [name for name, value in before.items() if name in SETTINGS and SETTINGS[name].value != value]
    assert not changed, f"the test left other values of {', '.join(changed)}"
    assert not is_quiet(), "the test left a block of no_grad open"


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", "needs(*what): skipped where cc, ext, opencl or index is missing: conftest.py")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, or fail where TINYGRAFT_REQUIRE says so, a test whose needs are not met."""
    for mark in item.iter_markers("needs"):
        for need in mark.args:
            reason = missing(need)
            if reason and need in REQUIRED:
                pytest.fail(f"{reason}, and TINYGRAFT_REQUIRE={os.environ['TINYGRAFT_REQUIRE']}", pytrace=False)
            if reason:
                pytest.skip(reason)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the disk caches of this run."""
    shutil.rmtree(_cache_folder, ignore_errors=True)
