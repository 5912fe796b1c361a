"""Nine broken plugins at once: each is a line with its reason, none is imported by a listing, and computing goes on."""

import json
import os
import subprocess
import sys
import time

import pytest

from tinygraft.cli import devices, doctor
from tinygraft.cli.main import main
from tinygraft.hooks.manager import here as hooks

MARK = "#!\nimport os, pathlib\npathlib.Path(__file__).with_suffix(f'.{os.getpid()}').touch()\n"
NINE = {  # device -> what its module does, the state it ends in, what is said of it
    "RAISES": ("raise RuntimeError('raised on import')", "broken", "RuntimeError: raised on import"),
    "EXITS": ("raise SystemExit(3)", "broken", "SystemExit: 3"),
    "WRONG": ("SPEC = 3", "invalid", "its entry point gives a int, not a DeviceSpec"),
    "LIBRARY": ("import ctypes; ctypes.CDLL('libnot_there.so.1')", "broken", "OSError: libnot_there.so.1"),
    "CRASHES": ("import signal; os.kill(os.getpid(), signal.SIGSEGV)", "broken", "ended it by SIGSEGV"),
    "SLOW": ("import time; time.sleep(3600)", "broken", "in a child process took more than"),
    "SKEWED": ("from tinygraft.plugin import Teleporter", "incompatible", "cannot import name 'Teleporter'"),
    "NONE": ("SPEC = None", "invalid", "its entry point gives a NoneType, not a DeviceSpec"),
    "STOPS": ("raise KeyboardInterrupt", "broken", "KeyboardInterrupt"),
}
needs_signals = pytest.mark.skipif(os.name != "posix", reason="no signals here")


@pytest.fixture(scope="module")
def patience():
    """Seconds that nine children have to say why they end: on a busy machine each takes a multiple of a second.

    Measured with one child that is imported like a plugin, which has a processor to itself; nine share them, and what
    else runs may begin later.
    """
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", "import tinygraft.plugin"], check=True, timeout=120)
    return max(1.5, round(12 * (time.monotonic() - started), 1))


@pytest.fixture
def nine(fakes, installed_hooks, patience, monkeypatch):
    """All nine installed; the commands look at them and nothing else, with little patience."""
    for name, (code, _, _) in NINE.items():
        fakes.add(name, MARK + code + "\n")
    registry = fakes.registry()
    for module in (devices, doctor):
        monkeypatch.setattr(module, "Device", registry)
    monkeypatch.setattr(devices, "LIMIT", patience)
    monkeypatch.setattr(doctor, "LIMITS", (patience, patience))
    return fakes


def importers(fakes):
    """The processes that imported each plugin."""
    found = {}
    for file in fakes.folder.iterdir():
        if file.suffix[1:].isdigit():
            found.setdefault(file.stem.removeprefix("tinygraft_").upper(), set()).add(int(file.suffix[1:]))
    return found


def test_a_listing_imports_none_of_them(nine, capsys):
    """`devices --no-probe --json` lists all nine, and no process imports any."""
    assert main(["devices", "--no-probe", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {record["name"]: record["status"] for record in listed} == dict.fromkeys(NINE, "declared")
    assert importers(nine) == {}
    assert not [name for name in sys.modules if name.startswith("tinygraft_") and name.split("_")[1].upper() in NINE]


@pytest.mark.slow
@needs_signals
def test_devices_gives_the_reason_of_each(nine, patience, capsys):
    """`devices --json` has the state and the reason of all nine; they were imported in child processes alone."""
    assert main(["devices", "--json"]) == 1
    said = capsys.readouterr()
    records = {record["name"]: record for record in json.loads(said.out)}
    assert {name: record["status"] for name, record in records.items()} == {n: s for n, (_, s, _) in NINE.items()}
    assert {n: r["detail"] for n, r in records.items() if NINE[n][2] not in r["detail"]} == {}
    assert [name for name, record in records.items() if not record["hint"]] == []
    assert f"waiting for SLOW (tinygraft-slow 1.0) in a child process, at most {patience:g} s" in said.err
    assert set(importers(nine)) == set(NINE)
    assert all(os.getpid() not in pids for pids in importers(nine).values())


@needs_signals
def test_doctor_gives_the_reason_of_each(nine, capsys):
    """`doctor` has a failed line for each of the nine, with what to do, and exit code 1."""
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    for name, (_, _, reason) in NINE.items():
        place = lines.index(f"{name}  tinygraft-{name.lower()} 1.0")
        (failed,) = [line for line in lines[place + 1 : place + 3] if line.startswith("  [FAIL]")]
        assert reason in failed
        assert "  -> " in failed
    assert lines[-1].startswith(
        "Exit 1: 9 problems (CRASHES, EXITS, LIBRARY, NONE, RAISES, SKEWED, SLOW, STOPS, WRONG)"
    )
    assert all(os.getpid() not in pids for pids in importers(nine).values())


@needs_signals
def test_the_processor_computes_beside_them(nine):
    """With all nine installed, the automatic choice warns and computes; what is denied is not even tried."""
    code = (
        "import os, warnings\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    from tinygraft import Tensor\n"
        "    t = Tensor([1, 2, 3]) * 2\n"
        "    values, text = t.tolist(), str(said[0].message)\n"
        "print(t.device, values, len(said), sorted(n for n in os.environ['NINE'].split() if n in text))"
    )
    path = os.pathsep.join([str(nine.folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {
        "PYTHONPATH": path,
        "NINE": " ".join(NINE),
        "TINYGRAFT_DISABLE_PLUGINS": "slow,opencl",
        "TINYGRAFT_CACHE": str(nine.folder / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    passed_over = sorted(set(NINE) - {"SLOW"})
    assert done.stdout.strip() == f"CPU [2, 4, 6] 1 {passed_over}"
    assert set(importers(nine)) == set(passed_over)


def test_an_explicit_request_asks_none_of_them(nine):
    """Naming a device imports that one alone, whatever else is installed."""
    nine.add("TOY")
    registry = nine.registry()
    assert registry["TOY"].name == "TOY"
    assert importers(nine) == {}
    assert hooks.records() == []
