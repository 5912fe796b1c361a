"""What the author of a plugin is told of mistakes in it: where they are, and never to fetch it from an index."""

import os
import re
import signal
import subprocess
import sys

import pytest

from tinygraft.cli import devices, doctor
from tinygraft.cli.main import main
from tinygraft.conformance.opened import open_device
from tinygraft.device.registry import Device
from tinygraft.errors import DeviceUnavailable

HEAD = "from tinygraft.plugin import BASIC_OPS, Ops, Program, PythonBackend, Target\n"
# line 1 is HEAD; the line of the mistake, its code, what is said of it
MISTAKES = {
    "a field that is misspelt": (
        2, "TARGET = Target(vector_byte=16)",
        "TypeError: Target() got an unexpected keyword argument 'vector_byte' hint: did you mean 'vector_bytes'?",
    ),
    "a name that core lacks": (
        2, "from tinygraft.plugin import Allocater",
        "ImportError: cannot import name 'Allocater' from 'tinygraft.plugin'",
    ),
    "a module that is missing": (2, "import no_such_driver", "ModuleNotFoundError: No module named 'no_such_driver'"),
    "a syntax error": (2, "TARGET = Target(", "SyntaxError: '(' was never closed (device.py, line 2)"),
    "another class": (
        0, "class Backent(PythonBackend): pass",
        "AttributeError: module 'tinygraft_nova.device' has no attribute 'Backend'",
    ),
    "a method that is missing": (
        2, "class Backend(PythonBackend):\n    load = PythonBackend.__mro__[1].load",
        "TypeError: Can't instantiate abstract class Backend",
    ),
    "a constructor that raises": (
        4, "class Backend(PythonBackend):\n    def __init__(self, name, ordinal):\n        self.queue = nothing.queue",
        "NameError: name 'nothing' is not defined",
    ),
}  # fmt: skip


@pytest.fixture
def nova(fakes, installed_hooks, monkeypatch, capsys):
    """Install tinygraft-nova as `pip install -e` does, with some code in its device.py; doctor sees nothing else."""

    def add(code, probe="return Probe(ok=True, detail='found')"):
        package = fakes.folder / "tinygraft_nova"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "device.py").write_text(HEAD + code + "\n")
        (package / "probe.py").write_text(f"from tinygraft.plugin import Probe\n\n\ndef probe():\n    {probe}\n")
        spec = """
            from dataclasses import replace
            SPEC = replace(
                SPEC, probe="tinygraft_nova.probe:probe", backend="tinygraft_nova.device:Backend",
                install_hint="pip install tinygraft-nova", priority=0,
            )
            """
        fakes.add("NOVA", spec, module="tinygraft_nova_spec", distribution="tinygraft-nova")
        (fakes.folder / "tinygraft_nova-1.0.dist-info" / "direct_url.json").write_text(
            '{"url": "file:///home/me/nova", "dir_info": {"editable": true}}'
        )
        for module in (devices, doctor):
            monkeypatch.setattr(module, "Device", fakes.registry())
        return package

    return add


def examined(capsys, *arguments):
    """Run doctor on NOVA; what it prints."""
    capsys.readouterr()
    assert main(["doctor", *arguments, "NOVA"]) == 2
    return capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_in_its_file(nova, fakes, capsys, mistake):
    """DEV=NOVA, doctor and the kit name the file and the line; none of them says to fetch the package."""
    line, code, sentence = MISTAKES[mistake]
    package = nova(code)
    place = f"mend {package / 'device.py'}" + (f", line {line}" if line else "")
    with pytest.raises(DeviceUnavailable) as caught:
        fakes.registry()["NOVA"]
    said = str(caught.value)
    assert sentence in said
    assert f"\n  fix: {place}\n" in said
    assert said.endswith("details: python -m tinygraft doctor -v NOVA")
    Device.refresh()
    assert f"\n  fix: {place}\n" in open_device("NOVA").reason
    printed = examined(capsys)
    assert sentence in printed
    assert f"  -> {place}; doctor -v prints the traceback\n" in printed
    for text in (said, printed):
        assert "pip install" not in text
        assert "pip uninstall" not in text


@pytest.mark.slow
def test_a_probe_that_raises(nova, fakes, capsys):
    """So does a probe that raises."""
    package = nova("", probe="return Probe(ok=driver, detail='')")
    place = f"mend {package / 'probe.py'}, line 5"
    with pytest.raises(DeviceUnavailable, match="its probe failed: NameError: name 'driver' is not") as caught:
        fakes.registry()["NOVA"]
    assert f"\n  fix: {place}\n" in str(caught.value)
    assert f"  -> {place}; doctor -v prints the traceback\n" in examined(capsys)


@pytest.mark.slow
def test_a_crash(nova, capsys):
    """A device that ends its process is not advised to be uninstalled by its own author."""
    nova("import os, signal\nclass Backend(PythonBackend):\n    def __init__(self, name, ordinal):\n"
         "        os.kill(os.getpid(), signal.SIGSEGV)")  # fmt: skip
    printed = examined(capsys)
    assert "ended it by SIGSEGV" in printed
    assert (
        "  -> python -m tinygraft conformance --device NOVA names the kernel; TINYGRAFT_DISABLE_PLUGINS=NOVA" in printed
    )


@pytest.mark.slow
def test_a_device_that_is_chosen_by_itself(nova, fakes, monkeypatch):
    """The child process that tries a plugin for the automatic choice knows too that it is on no index."""
    nova("")
    file = fakes.folder / "tinygraft_nova_spec.py"
    file.write_text(file.read_text() + "raise OSError('no spec')\n")
    registry = fakes.registry()
    assert registry.get_available_devices() == []
    (record,) = registry.records()
    last = len(file.read_text().splitlines())
    assert (record.detail, record.hint) == ("OSError: no spec", f"mend {file}, line {last}")


@pytest.mark.slow
def test_a_native_op_without_a_word(nova, capsys):
    """Doctor sees an op that the Target lists and the Dialect cannot call, before a kernel has it."""
    nova(
        "from dataclasses import replace\nfrom tinygraft.plugin import CStyleRenderer, Dialect\n"
        "class Backend(PythonBackend):\n    def __init__(self, name, ordinal):\n"
        "        super().__init__(name, ordinal)\n"
        "        self.target = replace(self.target, native_ops=BASIC_OPS | {Ops.TRUNC, Ops.SQRT, Ops.MAX})\n"
        "        self.renderer = CStyleRenderer(Dialect(calls={Ops.SQRT: 'sqrt'}))"
    )
    printed = examined(capsys)
    assert (
        "  [FAIL] native_ops of the Target has TRUNC, and calls of the Dialect (c) has no word for it"
        '  -> add calls={Ops.TRUNC: "..."} to the Dialect, or leave TRUNC out of native_ops\n'
    ) in printed
    assert "SQRT, and" not in printed
    assert "MAX, and" not in printed


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="no signals here")
def test_a_launch_that_crashes(nova, fakes, tmp_path):
    """The kit's command says which test and which kernel ended its process, by which signal, and what passed before."""
    nova(
        "import ctypes\nclass Crash(Program):\n"
        "    def launch(self, buffers, variables, grid):\n        ctypes.string_at(0)\n"
        "class Backend(PythonBackend):\n    def load(self, binary):\n        return Crash()"
    )
    command = [sys.executable, "-m", "tinygraft", "conformance", "--device", "NOVA", "--level", "spec,ops", "-k",
               "names_agree or (SQRT and float32)"]  # fmt: skip
    settings = {"PYTHONPATH": str(fakes.folder), "CACHEDIR": str(tmp_path)}
    done = subprocess.run(command, env=os.environ | settings, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == -signal.SIGSEGV
    assert re.search(
        r"\nconformance: ended by SIGSEGV in test_\w+\[.*SQRT.*\], kernel \w+; 1 passed before\n"
        r"  hint: -k test_\w+ runs that test again; DEBUG=4 prints the sources of its kernels\n$",
        done.stderr,
    ), done.stderr
