"""The commands that show what is installed: their tables, their exit codes, and what they import."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tinygraft import config
from tinygraft.cli import devices, doctor
from tinygraft.cli.main import main

pytestmark = pytest.mark.slow


@pytest.fixture
def listing(fakes, monkeypatch, capsys):
    """Run `tinygraft devices` over the fake distributions: its exit code and what it prints."""

    def run(*arguments):
        monkeypatch.setattr(devices, "Device", fakes.registry())
        code = main(["devices", *arguments])
        return code, capsys.readouterr().out

    return run


def test_the_table(fakes, listing):
    """One line for each device: name, status, ordinals, distribution and detail; the default is marked."""
    fakes.add("TOY", count=2)
    fakes.add("GONE", "def probe():\n    return Probe(ok=False, detail='no card')\n")
    code, text = listing()
    assert [line.split() for line in text.splitlines()] == [
        ["NAME", "STATUS", "DEVICES", "PROVIDED", "BY", "DETAIL"],
        ["GONE", "unavailable", "-", "tinygraft-gone", "1.0", "no", "card"],
        ["*", "TOY", "available", "2", "tinygraft-toy", "1.0", "found", "(chosen:", "priority", "50)"],
    ]
    assert code == 0


def test_a_broken_plugin_is_a_line_and_exit_code_1(fakes, listing):
    """A plugin that crashes is one line of the table; the others are listed, and the exit code says 1."""
    fakes.add("CRASH", "#!\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)\n")
    fakes.add("TOY")
    code, text = listing()
    assert "CRASH  broken     -        tinygraft-crash 1.0  loading it in a child process ended it by SIGKILL" in text
    assert "* " in text
    assert "using TOY; passed over: CRASH is installed" in text
    assert code == 1


def test_no_probe_reads_metadata_only(fakes, listing):
    """--no-probe imports nothing, whatever is installed, and chooses nothing."""
    module = fakes.add("CRASH", "#!\nimport os; os.abort()\n")
    code, text = listing("--no-probe")
    assert "CRASH  declared  -        tinygraft-crash 1.0" in text
    assert module not in sys.modules
    assert (code, "*" in text) == (0, False)


def test_json(fakes, listing):
    """--json prints each record, with its reason and traceback."""
    fakes.add("TOY")
    fakes.add("WRECK", "#!\nraise OSError('wrecked')\n")
    code, text = listing("--json")
    toy, wreck = json.loads(text)
    assert (toy["name"], toy["status"], toy["default"], toy["devices"]) == ("TOY", "available", True, 1)
    assert (wreck["status"], wreck["detail"], wreck["default"]) == ("broken", "OSError: wrecked", False)
    assert "raise OSError('wrecked')" in wreck["traceback"]
    assert code == 1


def test_only_the_chosen_provider_is_the_default(fakes, listing, setting, monkeypatch):
    """Where TINYGRAFT_PROVIDER decides between two, the other one's line has no mark."""
    for distribution in ("acme-toy", "best-toy"):
        fakes.add("TOY", distribution=distribution)
    setting(config.TINYGRAFT_PROVIDER, "TOY=acme-toy")
    monkeypatch.setenv("TINYGRAFT_PROVIDER", "TOY=acme-toy")  # for the child that chooses
    _, text = listing("--json")
    assert {r["distribution"]: (r["status"], r["default"]) for r in json.loads(text)} == {
        "acme-toy": ("available", True),
        "best-toy": ("disabled", False),
    }
    assert listing()[1].count("*") == 1


def test_verbose(fakes, listing):
    """-v adds entry point, hint, what each step cost, what is shadowed, and the traceback."""
    fakes.add("TOY", version="2.0")
    fakes.add("TOY", version="1.0", module="toy_of_old")
    fakes.add("WRECK", "#!\nraise OSError('wrecked')\n")
    _, text = listing("-v")
    assert "\neach plugin was loaded in a child process of its own\n" in text
    fix = f"tell the authors of tinygraft-wreck 1.0: {fakes.folder / 'tinygraft_wreck.py'}, line 2"
    assert f"WRECK: tinygraft_wreck:SPEC\n  fix: {fix}\n  trial: " in text
    assert "    raise OSError('wrecked')\n" in text
    assert "  shadows tinygraft-toy " in text


def test_no_default(fakes, listing):
    """Where no device can be chosen, the table is followed by what to do."""
    fakes.add("SHY", priority=0)
    code, text = listing()
    assert "no device to run on" in text
    assert "or set DEV=PYTHON" in text
    assert code == 0


def test_an_error_is_one_line_and_exit_code_2(fakes, listing, setting, capsys):
    """A setting that cannot be read ends a command with its sentence, not with a traceback."""
    setting(config.TINYGRAFT_PROVIDER, "nonsense")
    for distribution in ("acme-toy", "best-toy"):
        fakes.add("TOY", distribution=distribution)
    code = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "Device", fakes.registry())
        code = main(["devices"])
    assert code == 2
    assert capsys.readouterr().err == ("SettingError: TINYGRAFT_PROVIDER must be NAME=distribution, got 'nonsense'\n")


def test_settings_lists_every_setting(capsys):
    """`tinygraft settings` has each setting with its value and the begin of its meaning."""
    assert main(["settings"]) == 0
    text = capsys.readouterr().out
    for name, setting in config.SETTINGS.items():
        line = next(line for line in text.splitlines() if line.split()[0] == name)
        assert repr(setting.value) in line
        assert setting.doc.split()[0] in line


def test_no_command_is_an_error():
    """Without a command the help is printed and the exit code is 2."""
    assert main([]) == 2


def test_a_closed_pipe_is_no_error():
    """`tinygraft settings | head -1` ends quietly."""
    command = f"{sys.executable} -m tinygraft settings | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 1)


HANGS = "#!\nimport pathlib, time\npathlib.Path(__file__).with_suffix('.there').touch()\ntime.sleep(3600)\n"


@pytest.mark.skipif(os.name != "posix", reason="no signals here")
@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("code", [
    "import sys; from tinygraft.cli.main import main; sys.exit(main(['devices']))",
    "from tinygraft.installed import plugin_probe; plugin_probe.LIMIT = 60.0\n"
    "from tinygraft import Device\ntry: Device.DEFAULT\nexcept KeyboardInterrupt: raise SystemExit(130)",
], ids=["devices", "the choice"])  # fmt: skip
def test_ctrl_c_does_not_wait_for_plugins_that_hang(fakes, code):
    """Ctrl-C ends what waits for child processes at once, and them too; no verdict on their plugins is kept."""
    for name in ("ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX"):
        fakes.add(name, HANGS)
    environment = os.environ | {"PYTHONPATH": str(fakes.folder), "TINYGRAFT_CACHE": str(fakes.folder / "cache")}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    until = time.monotonic() + 30
    while len(list(fakes.folder.glob("*.there"))) < 4 and time.monotonic() < until:
        time.sleep(0.05)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert time.monotonic() - start < 5
    assert not list((fakes.folder / "cache").glob("trial-*"))  # that it was ended says nothing about a plugin


SLOW_TO_OPEN = """
    import time
    class Backend(NullBackend):
        def __init__(self, name, ordinal):
            time.sleep(1.2)
            super().__init__(name, ordinal)
"""
DIES_OPENING = """
    import os, signal
    class Backend(NullBackend):
        def __init__(self, name, ordinal):
            os.kill(os.getpid(), signal.SIGSEGV)
"""


def test_a_command_says_what_it_waits_for(fakes, listing, monkeypatch, capsys):
    """What takes longer than a second is named on stderr, with the most that it may take.

    Where the machine is busy so may be the start of the child process, whose limit is another.
    """
    fakes.add("TOY", SLOW_TO_OPEN)
    monkeypatch.setattr(doctor, "Device", fakes.registry())
    main(["doctor", "TOY"])
    assert "  ...    opening it, at most 120 s\n" in capsys.readouterr().err
    monkeypatch.setattr(devices, "Device", fakes.registry())
    main(["devices"])
    said = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        "tinygraft: waiting for the default device to open in a child process, at most (20|120) s", said[-1]
    )


@pytest.mark.skipif(os.name != "posix", reason="no signals here")
def test_a_default_that_kills_the_process(fakes, listing):
    """A device that crashes when it is opened as the default is a line and exit code 1."""
    fakes.add("TOY", DIES_OPENING)
    code, text = listing()
    assert (
        "choosing the default in a child process ended it by SIGSEGV; python -m tinygraft doctor reports which device"
    ) in text
    assert code == 1


def test_doctor_says_why_there_is_no_default(fakes, installed_hooks, monkeypatch, capsys, setting):
    """Where the setting names a device that nobody has, the sentence about it stands before the last line."""
    fakes.add("TOY", "from dataclasses import replace\nSPEC = replace(SPEC, computes=False)\n")
    for module in (devices, doctor):
        monkeypatch.setattr(module, "Device", fakes.registry())
    monkeypatch.setenv("DEV", "FOO")
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "DEV=FOO: no plugin provides a device FOO (installed: TOY).",
        "  hint: a device is a package that pip installs; python -m tinygraft new-plugin foo writes one",
        "Exit 1: 1 problem (the default device). Usable default: none",
    ]
