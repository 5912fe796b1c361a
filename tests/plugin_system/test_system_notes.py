"""An error that a plugin's code raises says what was being done, on which device, and whose code it is."""

import sys

import numpy as np
import pytest

from tinygraft import Device, Tensor, TinyJit
from tinygraft.config import Context
from tinygraft.errors import CompileError, DeviceError
from tinygraft.installed.entries import forget

PARTS = """
from tinygraft.plugin import PythonBackend

breaks = {}

def breaking(thing, name):
    method = getattr(thing, name)
    def called(*arguments, **named):
        if isinstance(breaks.get(name), BaseException):
            raise breaks[name]
        if name in breaks:
            return breaks[name]
        return method(*arguments, **named)
    setattr(thing, name, called)

class Backend(PythonBackend):
    def __init__(self, name, ordinal):
        super().__init__(name, ordinal)
        for thing, method in ((self.renderer, "render"), (self.compiler, "compile"), (self, "load"),
                              (self.allocator, "alloc"), (self.allocator, "copy_in"), (self.allocator, "copy_out")):
            breaking(thing, method)

    def load(self, binary):
        program = super().load(binary)
        breaking(program, "launch")
        return program
"""


DOINGS = [
    ("render", "rendering E_3"), ("compile", "compiling E_3"), ("load", "loading E_3"), ("launch", "launching E_3"),
    ("copy_in", "writing 12 bytes"), ("copy_out", "reading 12 bytes"), ("alloc", "taking 12 bytes"),
]  # fmt: skip


@pytest.fixture
def breaks(fakes, monkeypatch):
    """What a method of the device TOY shall raise or give, by its name; the device is one of the process."""
    forget()
    monkeypatch.setattr(Device, "path", [str(fakes.folder), *sys.path])
    Device.refresh()
    module = fakes.add("TOY", PARTS, count=None)
    _ = Device["TOY"]
    with Context(CACHELEVEL=0):
        yield sys.modules[module].breaks
    sys.modules[module].breaks.clear()
    Device._opened.pop("TOY").close()  # and no other: tests beside this one have theirs open
    monkeypatch.undo()
    Device.refresh()


def compute(*numbers):
    """A small computation on TOY."""
    return (Tensor(list(numbers), device="TOY") * 2).tolist()


@pytest.mark.parametrize(("method", "doing"), DOINGS)
def test_an_error_has_a_note(breaks, method, doing):
    """Whatever fails, the error is the plugin's own, with a note of what was being done."""
    breaks[method] = OSError("jammed")
    with pytest.raises(OSError, match="jammed") as caught:
        compute(1, 2, 3)
    assert caught.value.__notes__ == [f"while {doing} on TOY (tinygraft-toy 1.0)"]
    breaks.clear()
    assert compute(1, 2, 3) == [2, 4, 6]


@pytest.mark.parametrize(("method", "doing"), DOINGS)
def test_a_plugin_does_not_end_the_program(breaks, method, doing):
    """sys.exit() in a plugin is an error of that plugin, which can be caught and says whose it is."""
    breaks[method] = SystemExit(3)
    with pytest.raises(DeviceError) as caught:
        compute(1, 2, 3)
    assert str(caught.value) == (
        f"the plugin of TOY (tinygraft-toy 1.0) asked the program to end (SystemExit: 3) while {doing}\n"
        "  hint: a plugin must not; tell its authors"
    )
    breaks.clear()
    assert compute(1, 2, 3) == [2, 4, 6]


@pytest.mark.parametrize(
    ("method", "given", "sentence"),
    [("render", "text", "the renderer of TOY returned a str, not a Source"),
     ("compile", b"code", "the compiler of TOY returned a bytes, not a Binary"),
     ("load", None, "load of the backend of TOY returned a NoneType, not a Program")],
)  # fmt: skip
def test_what_is_of_another_type_is_named(breaks, method, given, sentence):
    """What a part of a plugin gives has its type; what has not is said, and whose it is."""
    breaks[method] = given
    with pytest.raises(DeviceError) as caught:
        compute(1, 2, 3)
    assert str(caught.value) == sentence
    breaks.clear()
    assert compute(1, 2, 3) == [2, 4, 6]


def test_a_replay_has_a_note(breaks):
    """A replayed function says how many launches it was about."""
    jit = TinyJit(lambda x: (x * 2).realize())
    for _ in range(3):
        jit(Tensor([1, 2, 3], device="TOY").realize())
    breaks["launch"] = OSError("jammed")
    x = Tensor(np.array([1, 2, 3], np.int32), device="TOY").realize()
    with pytest.raises(OSError, match="jammed") as caught:
        jit(x)
    assert caught.value.__notes__ == ["while replaying 1 launches on TOY (tinygraft-toy 1.0)"]


def test_errors_of_ours_need_none(breaks):
    """A CompileError says by itself what it is about."""
    breaks["compile"] = CompileError("no such word")
    with pytest.raises(CompileError, match="no such word") as caught:
        compute(1, 2, 3)
    assert getattr(caught.value, "__notes__", []) == []
