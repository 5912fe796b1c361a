"""The doctor: each line that it can print, forced with a fake distribution, and its exit codes."""

import json
import os
import re
import time

import pytest

from tinygraft import Device, __version__, config
from tinygraft.cli import devices, doctor
from tinygraft.cli.main import main
from tinygraft.installed.entries import place_of
from tinygraft.installed.requires import required, satisfies

pytestmark = pytest.mark.slow

COMPUTES = "from tinygraft.plugin import PythonBackend\nclass Backend(PythonBackend):\n    pass\n"
NOTHING = "from dataclasses import replace\nSPEC = replace(SPEC, computes=False)\n"


@pytest.fixture
def examined(fakes, installed_hooks, monkeypatch, capsys):
    """Run `tinygraft doctor` over the fake distributions: its exit code and its lines."""

    def run(*arguments):
        registry = fakes.registry()
        for module in (devices, doctor):
            monkeypatch.setattr(module, "Device", registry)
        code = main(["doctor", *arguments])
        return code, capsys.readouterr().out.splitlines()

    return run


def test_a_device_that_works(fakes, examined):
    """Every step is a line with what it found: versions, API, times, and the sum that was computed."""
    fakes.add("TOY", COMPUTES, requires="tinygraft (>=0.1,<9)", count=2)
    code, lines = examined()
    assert code == 0
    assert re.fullmatch(
        rf"tinygraft {re.escape(__version__)}, plugin API 0\.1, Python 3\.\d+\.\S+, \w+ \S+; DEV unset", lines[0]
    )
    expected = [
        r"each plugin is loaded and run in a child process of its own",
        r"TOY  tinygraft-toy 1\.0",
        rf"  \[ok\]   requires tinygraft>=0\.1,<9; here is {re.escape(__version__)}",
        r"  \[ok\]   spec tinygraft_toy:SPEC imported in [\d.]+ ms, and nothing heavy with it",
        r"  \[ok\]   plugin API 0\.1 to below 0\.2; here is 0\.1",
        r"  \[ok\]   probe in [\d.]+ ms: found; 2 devices",
        r"  \[ok\]   opened TOY in \d+ ms: python, computes with bfloat16 half float double",
        r"  \[ok\]   render, compile, launch: \[1, 2, 3\] \* 2 == \[2, 4, 6\] in \d+ ms",
        r"  \[ok\]   closed TOY",
        r"Exit 0: 0 problems\. Usable default: TOY",
    ]
    for line, pattern in zip(lines[1:], expected, strict=True):
        assert re.fullmatch(pattern, line), line


def test_a_named_device(fakes, examined):
    """doctor NAME checks that one; exit code 0 says that it works."""
    fakes.add("TOY", NOTHING)
    fakes.add("WRECK", "#!\nraise OSError('wrecked')\n")
    code, lines = examined("toy")
    assert (code, lines[-1]) == (0, "Exit 0: toy works")
    assert "  [--]   it computes nothing, as its spec says" in lines
    assert not [line for line in lines if "WRECK" in line]


def test_a_named_device_that_is_not_here(fakes, examined):
    """A device that is merely absent is exit code 2 for who named it; 1 in a round over all, as none is left."""
    fakes.add("TOY", "def probe():\n    return Probe(ok=False, detail='no toy on this table', hint='put one there')\n")
    code, lines = examined("TOY")
    assert "  [--]   none here: no toy on this table  -> put one there" in lines
    assert (code, lines[-1]) == (2, "Exit 2: TOY cannot be used here")
    code, lines = examined()
    assert (code, lines[-1]) == (1, "Exit 1: 1 problem (the default device). Usable default: none")


def test_an_ordinal_that_is_not_there(fakes, examined):
    """doctor NAME:ordinal opens that one."""
    fakes.add("TOY", NOTHING, count=1)
    code, lines = examined("TOY:1")
    assert "  [FAIL] opening TOY:1: TOY:1 does not exist: there is only TOY" in lines
    assert code == 2


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("TOYY", "no plugin provides a device TOYY (installed: TOY). Did you mean TOY?"),
        ("a b", "'a b' is not the name of a device; write NAME or NAME:ordinal, such as NULL:1"),
    ],
)
def test_a_name_that_nobody_has(fakes, installed_hooks, monkeypatch, capsys, name, sentence):
    """A name of no device and no plugin is a sentence and exit code 2; nothing is started."""
    fakes.add("TOY")
    monkeypatch.setattr(doctor, "Device", fakes.registry())
    assert main(["doctor", name]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.partition(": ")[2]) == ("", sentence + "\n")


def test_a_sum_that_is_wrong(fakes, examined):
    """A device that gives other numbers is found, with the command that says more."""
    fakes.add("TOY")
    code, lines = examined()
    assert (
        "  [FAIL] [1, 2, 3] * 2 is [0, 0, 0] there, not [2, 4, 6]  -> python -m tinygraft conformance --device TOY"
    ) in lines
    assert (code, lines[-1]) == (1, "Exit 1: 1 problem (TOY). Usable default: TOY")


def test_a_kernel_that_fails(fakes, examined):
    """An exception in the middle of computing is its sentence; -v has the traceback."""
    fakes.add("TOY", "class Backend(NullBackend):\n    def load(self, binary):\n        raise OSError('no loader')\n")
    code, lines = examined("-v")
    fix = f"python -m tinygraft conformance --device TOY; it was raised in {fakes.folder / 'tinygraft_toy.py'}, line 17"
    assert f"  [FAIL] [1, 2, 3] * 2: OSError: no loader  -> {fix}" in lines
    assert any(line.strip() == "raise OSError('no loader')" for line in lines)
    assert code == 1


def test_a_device_that_does_not_open(fakes, examined):
    """An exception while opening, with its place; the default says what is left."""
    fakes.add(
        "TOY", "class Backend(NullBackend):\n    def __init__(self, name, ordinal):\n        raise OSError('in use')\n"
    )
    code, lines = examined()
    place = f"{fakes.folder / 'tinygraft_toy.py'}, line 17"
    fix = f"tell the authors of tinygraft-toy 1.0: {place}; doctor -v prints the traceback"
    assert f"  [FAIL] opening TOY: OSError: in use  -> {fix}" in lines
    assert (code, lines[-1]) == (1, "Exit 1: 1 problem (TOY). Usable default: none")


@pytest.mark.skipif(os.name != "posix", reason="no signals here")
def test_a_device_that_kills_the_process(fakes, examined):
    """A crash at any step is a line that names the step and the signal; -v has where it was."""
    dies = """
        import os, signal
        class Backend(NullBackend):
            def __init__(self, name, ordinal):
                os.kill(os.getpid(), signal.SIGSEGV)
        """
    fakes.add("TOY", dies)
    code, lines = examined("-v")
    assert any(line.startswith("  [FAIL] opening it in a child process ended it by SIGSEGV") for line in lines)
    assert any("Segmentation fault" in line for line in lines)
    assert code == 1


def test_a_spec_that_imports_much(fakes, examined):
    """A spec that brings a library with it is told so; it works all the same."""
    fakes.add("TOY", "import pytest\n" + NOTHING)
    code, lines = examined()
    assert any(
        re.search(r"imported in [\d.]+ ms, with .*pytest.*: a spec should import nothing but tinygraft.plugin", line)
        for line in lines
    )
    assert code == 0


@pytest.mark.parametrize(
    ("requires", "expected", "code"),
    [
        ("tinygraft<0.1", "  [FAIL] requires tinygraft<0.1; here is {}"
         "  -> pip install -U tinygraft-toy 'tinygraft<0.1'", 1),
        ("numpy", "  [--]   its metadata does not say which tinygraft it needs; pip cannot keep the two together"
         "  -> dependencies = [\"tinygraft>=...\"] in its pyproject.toml", 0),
    ],
)  # fmt: skip
def test_what_the_metadata_requires(fakes, examined, requires, expected, code):
    """Requires-Dist is held against this core: pip lets a later install break it."""
    fakes.add("TOY", NOTHING, requires=requires)
    found, lines = examined()
    assert expected.format(__version__) in lines
    assert found == code


def test_two_providers(fakes, examined):
    """An ambiguous name is a failed line for both, and nothing is imported."""
    for distribution in ("acme-toy", "best-toy"):
        fakes.add("TOY", distribution=distribution)
    code, lines = examined()
    assert "  [FAIL] it is provided by acme-toy 1.0 and best-toy 1.0" in "\n".join(lines)
    assert (code, lines[-1]) == (1, "Exit 1: 2 problems (TOY, TOY). Usable default: none")


def test_what_is_switched_off(fakes, examined, setting):
    """A plugin on the deny list is said to be off, and is no problem; that none is left is one."""
    setting(config.TINYGRAFT_DISABLE_PLUGINS, "toy")
    fakes.add("TOY", "#!\nimport os; os.abort()\n")
    code, lines = examined()
    assert any("[--]   switched off: TINYGRAFT_DISABLE_PLUGINS=toy switches it off  -> unset" in line for line in lines)
    assert (code, lines[-1]) == (1, "Exit 1: 1 problem (the default device). Usable default: none")


def test_the_last_conformance(fakes, examined, tmp_path):
    """Where the kit has left its counts, they are a line, which says whether the code has changed since."""
    fakes.add("TOY", NOTHING)
    (tmp_path / "cache").mkdir()
    file = tmp_path / "cache" / "conformance-TOY.json"
    (entry,) = (record.entry for record in Device.records() if record.name == "TOY")
    note = {
        "place": place_of(entry),
        "distribution": "tinygraft-toy",
        "version": "1.0",
        "api": "0.1",
        "when": 0,
        "counts": {"passed": 4, "n/a": 2},
    }
    file.write_text(json.dumps(note))
    _, lines = examined()
    changed = r"last conformance, 19(69|70)-\d\d-\d\d, before its code was changed: 4 passed, 2 n/a \(API 0.1\)"
    assert any(re.search(changed, line) for line in lines)
    note["when"] = time.time() + 5
    file.write_text(json.dumps(note))
    assert any(re.search(r"last conformance, 20\d\d-\d\d-\d\d: 4 passed", line) for line in examined()[1])
    file.write_text(json.dumps(note | {"version": "0.9"}))
    assert any(", of tinygraft-toy 0.9: 4 passed" in line for line in examined()[1])
    file.write_text(json.dumps(note | {"place": "/elsewhere/tinygraft_toy.py"}))  # another package of that name
    assert not any("last conformance" in line for line in examined()[1])
    file.write_text("[]")
    assert not any("last conformance" in line for line in examined()[1])


def test_the_setting_that_chooses_is_shown(fakes, examined, setting):
    """The first line says what DEV asks for."""
    fakes.add("TOY", NOTHING)
    setting(config.DEV, "TOY")
    assert examined()[1][0].endswith("; DEV=TOY")


def test_hook_plugins_are_checked(fakes, examined):
    """A hook plugin's hooks, passes, commands and checks are lines; a check that raises is a failed one."""
    fakes.add_hooks(
        """
        @hookimpl
        def tinygraft_on_launch(event): pass

        @hookimpl
        def tinygraft_codegen_passes(request):
            if request.stage == "kernel":
                return [CodegenPass(id="same", version=1, run=lambda sink, target: sink)]

        @hookimpl
        def tinygraft_cli(commands):
            commands.add(Command(name="hello", run=lambda arguments: 0))

        def stuck():
            raise OSError("jammed")

        @hookimpl
        def tinygraft_doctor_checks():
            fine = DoctorCheck(name="paper", run=lambda: "two sheets")
            return [fine, DoctorCheck(name="ink", run=stuck, hint="shake")]
        """
    )
    code, lines = examined()
    assert lines[2:8] == [
        "hooks extra  tinygraft-extra 1.0",
        "  [ok]   tinygraft_extra has cli, codegen_passes, doctor_checks, on_launch",
        "  [ok]   codegen passes for a plain Target: kernel same",
        "  [ok]   adds the commands hello",
        "  [ok]   paper: two sheets",
        "  [FAIL] ink: OSError: jammed  -> shake",
    ]
    assert (code, lines[-1]) == (1, "Exit 1: 1 problem (extra). Usable default: none")


def test_hook_plugins_that_raise_are_failed_checks(fakes, examined):
    """A contributor that raises is a line of the doctor that names it."""
    fakes.add_hooks(
        """
        @hookimpl
        def tinygraft_doctor_checks(): raise OSError("no paper")

        @hookimpl
        def tinygraft_cli(commands): raise OSError("no keyboard")
        """
    )
    code, lines = examined("tinygraft-extra")
    text = "\n".join(lines)
    assert "[FAIL] tinygraft_doctor_checks of tinygraft-extra 1.0 raised OSError: no paper" in text
    assert "[FAIL] tinygraft_cli of tinygraft-extra 1.0 raised OSError: no keyboard" in text
    assert code == 2


@pytest.mark.parametrize(("chosen", "line"), [
    ("None", "  [ok]   chooses no default device among those declared"),
    ("'python:1, null'", "  [ok]   chooses python:1, null as the default device"),
    ("3", "  [FAIL] tinygraft_choose_default of tinygraft-extra 1.0 returned a int, not a name or None"),
    ("'NOPE'", "  [FAIL] tinygraft-extra 1.0 chooses NOPE: no plugin provides a device NOPE (installed: "),
    ("exit(3)", "  [FAIL] tinygraft_choose_default of tinygraft-extra 1.0 raised SystemExit: 3"),
])  # fmt: skip
def test_the_default_that_a_hook_plugin_chooses(fakes, examined, chosen, line):
    """A hook plugin that chooses the default is asked for it; what is no device's name is a failed line."""
    fakes.add_hooks(f"@hookimpl\ndef tinygraft_choose_default(request):\n    return {chosen}\n")
    code, lines = examined("extra")
    assert [said for said in lines if said.startswith(line)], lines
    assert code == (2 if "FAIL" in line else 0)


def test_a_choice_that_fails_is_a_problem(fakes, examined, capsys):
    """Where a hook plugin fails to choose the default nothing runs unasked: doctor and devices end with 1."""
    fakes.add("TOY", COMPUTES)
    code = "if any(c.status == 'available' for c in request.candidates): raise OSError('no dice')"
    fakes.add_hooks(f"@hookimpl\ndef tinygraft_choose_default(request):\n    {code}\n")
    sentence = "tinygraft_choose_default of tinygraft-extra 1.0 raised OSError: no dice"
    code, lines = examined()
    assert (code, lines[-2:]) == (1, [sentence, "Exit 1: 1 problem (the default device). Usable default: none"])
    assert main(["devices"]) == 1
    assert sentence in capsys.readouterr().out


@pytest.mark.parametrize(
    ("version", "bounds", "holds"),
    [
        ("0.1.0", ">=0.1,<0.2", True), ("0.2.0", ">=0.1,<0.2", False), ("0.1.0", "==0.1", True), ("1.10", ">1.9", True),
        ("1.2.3", "~=1.2", True), ("2.0", "~=1.2", False), ("1.2.3", "!=1.2.*", False), ("1.0.dev1", "<2", True),
        ("1.0", "", True), ("1.0rc1", ">=1.0", False), ("1.0.post1", "<=1.0", False), ("1.0+gpu", "==1.0", True),
    ],
)  # fmt: skip
def test_versions_within_bounds(version, bounds, holds):
    """The bounds of Requires-Dist, as pip reads them: a pre-release comes before its release."""
    assert satisfies(version, bounds) is holds


def test_an_extra_is_no_requirement():
    """What only an extra needs does not bind, nor what is for another Python; a URL names no version."""
    assert required("tinygraft", ["tinygraft<0.1 ; extra == 'old'", "Tinygraft >=0.1 ; python_version>'3'"]) == ">=0.1"
    assert required("tinygraft", ["tinygraft-cpu", "tinygraft<0.1; python_version < '3'", "no requirement"]) is None
    assert required("tinygraft", ["tinygraft @ file:///x"]) == ""
