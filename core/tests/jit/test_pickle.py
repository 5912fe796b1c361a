"""A pickled TinyJit: its captures, with the memory that they read, replayed in another process or beside the first."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Device, GlobalCounters, Tensor, TinyJit, nn
from tinygraft.errors import GraphError


@pytest.fixture(autouse=True, params=["PYTHON", "CPU"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each test runs on both devices."""
    with Context(DEV=request.param):
        yield request.param


def scaled(weight: float = 3.0) -> TinyJit[Any, Tensor]:
    """x * weight + 1, captured for one float."""
    outside = Tensor([weight]).realize()

    @TinyJit
    def scale(x: Tensor) -> Tensor:
        """x * weight + 1"""
        return (x * outside + 1).realize()

    for _ in range(2):
        scale(Tensor([1.0]))
    assert scale.captured == 1
    return scale


SCRIPT = """
import pickle, sys
import numpy as np
from tinygraft import GlobalCounters, Tensor, Variable
n = Variable("n", 1, 4)
jit = pickle.loads(open(sys.argv[1], "rb").read())
x = Tensor(np.arange(16, dtype=np.float32).reshape(4, 4))
x.realize()
GlobalCounters.reset()
out = jit(x, 2.0, n=n.bind(3))
assert GlobalCounters.kernels_compiled == 0
print(GlobalCounters.kernel_count, len(jit.kernels[0]), jit.captured, jit.__name__)
print(out["rows"].tolist(), out["sums"][0].item(), out["total"].tolist(), out["name"])
print(jit(x, 2.0, n=n.bind(1))["total"].tolist())
"""


def test_another_process_replays_it(tmp_path: Path, device: str) -> None:
    """Weights, state, constants, a variable and other items of the result: as in the process that captured it."""
    from tinygraft import Variable

    n = Variable("n", 1, 4)
    layer, state = nn.Linear(4, 3), Tensor([0.0, 0.0, 0.0]).realize()

    @TinyJit
    def forward(x: Tensor, by: float, *, n: Any) -> dict[str, Any]:
        rows = (layer(x) * by).relu()
        state.assign(state + rows.sum(0))
        sums = [(x[:n] * Tensor([1.0, 2.0, 3.0, 4.0])).sum().realize()]
        return {"rows": rows.realize(), "sums": sums, "total": (state * 1).realize(), "name": "forward"}

    x = Tensor(np.arange(16, dtype=np.float32).reshape(4, 4)).realize()
    for _ in range(3):
        forward(x, 2.0, n=n.bind(2))
    file = tmp_path / "jit"
    file.write_bytes(pickle.dumps(forward))
    environment = os.environ | {"DEV": device}
    command = [sys.executable, "-c", SCRIPT, str(file)]
    with Context(DEV=device):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    GlobalCounters.reset()
    out = forward(x, 2.0, n=n.bind(3))
    count = GlobalCounters.kernel_count
    expected = [
        f"{count} {count} 1 forward",
        f"{out['rows'].tolist()} {out['sums'][0].item()} {out['total'].tolist()} forward",
        f"{forward(x, 2.0, n=n.bind(1))['total'].tolist()}",
    ]
    assert done.stdout.splitlines() == expected


def test_a_loaded_one_has_memory_of_its_own() -> None:
    """State goes on separately in the original and in what was loaded from its pickle."""
    state = Tensor([1.0, 2.0]).realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        state.assign(state + x)
        return state.realize()

    for _ in range(3):
        step(Tensor([1.0, 1.0]))
    twin = pickle.loads(pickle.dumps(step))
    assert twin(Tensor([10.0, 10.0])).tolist() == [14.0, 15.0]
    assert state.tolist() == [4.0, 5.0]
    assert step(Tensor([1.0, 1.0])).tolist() == [5.0, 6.0]
    assert twin(Tensor([10.0, 10.0])).tolist() == [24.0, 25.0]


def test_a_result_that_is_memory_from_outside() -> None:
    """A function may give back what it reads or only holds; both are in the pickle."""
    read, only_held = Tensor([1.0, 2.0]).realize(), Tensor([7.0]).realize()
    jit = TinyJit(lambda x: ((x + read).realize(), read, only_held))
    for _ in range(3):
        jit(Tensor([1.0, 1.0]))
    twin = pickle.loads(pickle.dumps(jit))
    assert [t.tolist() for t in twin(Tensor([2.0, 2.0]))] == [[3.0, 4.0], [1.0, 2.0], [7.0]]


def test_it_can_be_pickled_again() -> None:
    """What was loaded is pickled like what was captured."""
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(scaled()))))
    assert again(Tensor([2.0])).tolist() == [7.0]


def test_what_a_loaded_one_cannot_do_is_said() -> None:
    """There is no function behind it for calls of another kind."""
    twin = pickle.loads(pickle.dumps(scaled()))
    with pytest.raises(GraphError) as caught:
        twin(Tensor([1.0, 2.0]))
    assert str(caught.value) == (
        "scale was loaded from a pickle, which has no function to run, and none of its captures is for arguments and "
        "settings like these\n"
        "  hint: shapes, dtypes, devices, settings and other arguments must be those of a call that it captured"
    )


def test_nothing_captured_is_nothing_to_pickle() -> None:
    """The function itself does not travel."""
    with pytest.raises(GraphError) as caught:
        pickle.dumps(TinyJit(lambda x: x))
    assert str(caught.value) == (
        "<lambda> under TinyJit has no capture to pickle, and is not pickled itself\n"
        "  hint: call it twice with arguments of each kind first"
    )


def test_code_for_another_compiler_is_refused(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine code runs where the compiler, its version and the processor's features are the same."""
    data = pickle.dumps(scaled())
    key = Device[device].compiler.key
    monkeypatch.setattr(Device[device].compiler, "key", "another")
    with pytest.raises(GraphError) as caught:
        pickle.loads(data)
    assert str(caught.value) == (
        f"the pickled TinyJit has code of {key} for {device}, which is another here\n"
        "  hint: machine code fits the kind of processor and the compiler it was made with; capture anew here"
    )


def test_a_copy_is_the_function_with_nothing_captured() -> None:
    """copy and deepcopy give a TinyJit that captures for itself."""
    jit = scaled()
    for twin in (copy.copy(jit), copy.deepcopy([jit])[0]):
        assert twin.captured == 0
        assert [twin(Tensor([float(i)])).tolist() for i in range(4)] == [[1.0], [4.0], [7.0], [10.0]]
        assert twin.captured == 1
