"""For every test: graphs are checked at each stage (SPEC=2) unless SPEC is set, as by make test-slow; disk caches start
empty, and what is missing is said.

A test that needs a C compiler, the native extension, an OpenCL driver or a package index that pip can ask is marked
`@pytest.mark.needs("cc")`, `needs("ext")`, `needs("opencl")`, `needs("mpi")` or `needs("index")`. It is skipped, with
one line in the summary, where there is none; TINYGRAFT_REQUIRE=cc,ext,opencl,mpi,index turns these skips into failures.
A skip that gives no reason fails. Of tests with many long cases most cases are marked long (tests/support/sampling.py).
The fixture golden compares text with a checked-in file, which `pytest --update-golden` writes anew; a test that presses
Ctrl-C asks for the fixture ctrl_c.
"""

import faulthandler
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

sys.path.insert(0, str(Path(__file__).parent / "tests" / "support"))  # a run from elsewhere has not our pyproject.toml
import opencl_driver
import sampling

os.environ.setdefault("SPEC", "2")
_cache_folder = tempfile.mkdtemp(prefix="tinygraft-test-cache-")
os.environ["TINYGRAFT_CACHE"] = _cache_folder
os.environ["POCL_CACHE_DIR"] = os.path.join(_cache_folder, "pocl")  # not what a worker of pytest-xdist inherits
pytest_plugins = ["tinygraft.conformance.plugin"]  # here and not by -p: it reads the settings, and so comes after them
collect_ignore_glob = [
    "tests/support/pyobjc/*",  # stands for modules that only a Mac has; metal_emulator.py loads it
    # importing these raises, with a hint
    *(
        f"core/src/tinygraft/{name}.py"
        for name in ("data", "distributed", "optim", "utils", "nn/functional", "nn/init")
    ),
    "core/src/tinygraft/nn/utils/*",
]
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
        why = opencl_driver.refusal() if found.ok else found.detail
        return f"no OpenCL ({why})" if why else None
    if need == "mpi":
        try:
            from tinygraft_mpi.launching import mpiexec, probe
        except ImportError as error:
            return f"no MPI plugin ({error})"
        found = probe()
        why = found.detail if not found.ok else "" if mpiexec() else "no mpiexec"
        return f"no MPI ({why})" if why else None
    if need == "index":
        with tempfile.TemporaryDirectory() as folder:
            ask = [sys.executable, "-m", "pip", "download", "--quiet", "--retries", "0", "--timeout", "10", "--no-deps"]
            done = subprocess.run([*ask, "--dest", folder, "pluggy"], capture_output=True, text=True)
        words = done.stderr.strip().splitlines() or ["it said nothing"]
        return None if done.returncode == 0 else f"no package index (pip cannot download pluggy: {words[-1]})"
    raise pytest.UsageError(f"a test needs {need!r}; conftest.py knows cc, ext, opencl, mpi and index")


def last_words(worker: dict[str, str]) -> Path:
    """Where a process of pytest-xdist leaves what C libraries and faulthandler write to its standard error."""
    return Path(tempfile.gettempdir(), f"tinygraft-test-{worker['testrunuid']}-{worker['workerid']}.txt")


def _keep_last_words(config: pytest.Config) -> None:
    """Without it a process that ends takes its words along. They need pytest --capture=sys, as make test has it."""
    if worker := getattr(config, "workerinput", None):
        with last_words(worker).open("ab") as file:
            os.dup2(file.fileno(), sys.__stderr__.fileno())


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport) -> None:
    """The test that a process of pytest-xdist was running when it ended fails with the signal and its last words."""
    node: Any = report.node  # type: ignore[attr-defined]
    code = node.gateway._io.popen.wait(10)
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    words = last_words(node.workerinput)
    said = words.read_text(errors="replace")[-20_000:]
    words.unlink()
    report.longrepr = (
        f"{node.gateway.id} was ended by {how} while it ran {crashitem}. On its standard error was:\n{said}"
    )


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
    from tinygraft.tensor.state.no_grad import is_quiet

    before = {name: setting.value for name, setting in SETTINGS.items()}
    yield
    changed = [name for name, value in before.items() if name in SETTINGS and SETTINGS[name].value != value]
    assert not changed, f"the test left other values of {', '.join(changed)}"
    assert not is_quiet(), "the test left a block of no_grad open"


@pytest.fixture(autouse=True)
def crashes_show_stacks(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that runs pytest in this process lets later crashes be written where nobody sees them."""
    yield
    faulthandler.enable(request.config.stash[fault_handler_stderr_fd_key])


def pytest_configure(config: pytest.Config) -> None:
    """Choose the driver of OpenCL, and declare the marker."""
    _keep_last_words(config)
    opencl_driver.choose()
    config.addinivalue_line("markers", "needs(*what): skipped where one of them is missing: conftest.py")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark most cases of tests with many long ones as long."""
    sampling.leave_out(items)


def pytest_collection_finish() -> None:
    """Let gc pass over what collecting tests has made: a million objects, 0.8 s in each collection."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, or fail where TINYGRAFT_REQUIRE says so, a test whose needs are not met."""
    for mark in item.iter_markers("needs"):
        for need in mark.args:
            reason = missing(need)
            if reason and need in REQUIRED:
                pytest.fail(f"{reason}, and TINYGRAFT_REQUIRE={os.environ['TINYGRAFT_REQUIRE']}", pytrace=False)
            if reason:
                pytest.skip(reason)


def _says_why(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Let a skip without a reason fail: nobody could tell whether it is still meant."""
    if report.skipped and isinstance(report.longrepr, tuple):
        path, line, said = report.longrepr
        if said.removeprefix("Skipped").strip(": ") in ("", "unconditional skip", "<Skipped instance>"):
            report.outcome = "failed"
            report.longrepr = f"{path}:{line}: a test is skipped without a reason; give it one"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that is skipped says why."""
    report = yield
    _says_why(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A file that is skipped as a whole says why."""
    report = yield
    _says_why(report)
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the disk caches of this run, and what was written in case that this process ended otherwise."""
    if worker := getattr(config, "workerinput", None):
        last_words(worker).unlink(missing_ok=True)
    shutil.rmtree(_cache_folder, ignore_errors=True)
