"""Plans: graphs of one form are scheduled and compiled once, also by the next process; different ones never share."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tinygraft import Context, Device, Tensor, Variable
from tinygraft.codegen.options import Options
from tinygraft.dtype import dtypes
from tinygraft.engine import collect, database, diskcache, pack, plan, protect, record_results, transaction
from tinygraft.reference.python import PythonBackend
from tinygraft.schedule import form
from tinygraft.target import Target
from tinygraft.tensor.data import realizing as access
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, nodes_made, postorder


@pytest.fixture(autouse=True)
def empty():
    """Each test starts without plans, on the PYTHON device."""
    plan.clear()
    with Context(DEV="PYTHON"):
        yield
    plan.clear()


@pytest.fixture
def made(monkeypatch):
    """A list that grows with each schedule that is made."""
    found = []
    real = plan.schedule
    monkeypatch.setattr(plan, "schedule", lambda *args: found.append(1) or real(*args))
    return found


def numbers(*values: float) -> Tensor:
    """Values in memory."""
    return Tensor(list(values)).realize()


def key_of(*outputs: UOp) -> form.FormKey:
    """The key of a graph's form."""
    found = form.form_of(postorder(*outputs), outputs)
    assert found is not None
    return found.key


def test_equal_graphs_on_other_buffers_are_scheduled_once(made):
    """The second turn of a computation does not schedule, and has the values of its own buffers."""
    for turn in range(4):
        a, b = numbers(turn, 2.0), numbers(3.0, turn)
        assert (a * b + a.sum()).tolist() == [turn * 3.0 + turn + 2, 2.0 * turn + turn + 2]
    assert len(made) == 1


def test_graphs_that_differ_in_the_values_of_variables_are_scheduled_once(made):
    """A symbolic size is part of the form, what it is bound to is not."""
    x = numbers(*range(10))
    for value in (3, 1, 7):
        n = Variable("n", 1, 9).bind(value)
        assert (x.shrink(((0, n),)) * 2 + n).sum().item() == sum(2 * i + value for i in range(value))
    assert len(made) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda a, b: a + b, lambda a, b: a - b),
        (lambda a, b: a * 1.0, lambda a, b: a * -1.0),
        (lambda a, b: a * 0.0, lambda a, b: a * -0.0),
        (lambda a, b: a - b, lambda a, b: b - a),
        (lambda a, b: a + a, lambda a, b: a + b),
        (lambda a, b: a.flip(0), lambda a, b: a.flip(0) + 0 * b),
        (lambda a, b: a[:1], lambda a, b: a[1:]),
        (lambda a, b: (a > 1).cast("int32"), lambda a, b: (a > 1).cast("int8")),
    ],
)
def test_graphs_that_differ_do_not_share(first, second):
    """An op, a constant's sign, the roles of the buffers, a slice, a dtype; texts differ as forms do."""
    for compute in (first, second, first, second):
        a, b = numbers(1.0, 2.0), numbers(5.0, 7.0)
        found = compute(a, b).tolist()
        plan.clear()
        assert str(found) == str(compute(a, b).tolist())
    a, b = numbers(1.0, 2.0), numbers(5.0, 7.0)
    one, two = (key_of(compute(a, b).uop) for compute in (first, second))
    assert (one == two) == (form.text(one) == form.text(two))


def test_assigns_are_in_place_in_every_turn():
    """What is written over is the buffer of this turn."""
    for turn in range(4):
        t = numbers(turn, 1.0)
        buffer = t.uop.base.realized
        t.assign(t.flip(0) + t).realize()
        assert t.uop.base.realized is buffer
        assert t.tolist() == [turn + 1.0, turn + 1.0]


def test_old_plans_go(monkeypatch):
    """At most MOST plans are kept."""
    monkeypatch.setattr(plan, "MOST", 3)
    for size in range(1, 8):
        (Tensor([1.0] * size).realize() + 1).realize()
    assert len(plan._plans) == 3


def test_the_size_of_a_buffer_is_part_of_the_form():
    """The same op on longer memory is another form; on other memory of that size it is the same."""

    def negated(size: int) -> form.FormKey:
        x = UOp.buffer("PYTHON", size, dtypes.float32)
        return key_of(UOp(Ops.NEG, x.dtype, (x,)))

    assert negated(4) == negated(4)
    assert negated(4) != negated(6)


def test_a_repeat_walks_its_graph_once_and_makes_two_nodes(made, monkeypatch):
    """The operation itself and the memory of its result; all else of its graph is there from the time before.

    From the third time on the one walk is that of shortcut.py.
    """
    near, strangers = access.LIVE.near, access.LIVE.near(())  # of other modules: they would be walked too
    ids = {id(tensor) for tensor in strangers}
    monkeypatch.setattr(
        access.LIVE, "near", lambda memory: [t for t in near(memory) if id(t) not in ids], raising=False
    )
    walks = []
    for module in (collect, protect, record_results, transaction):
        for name in {"postorder", "toposort", "rebuild"} & vars(module).keys():
            real = getattr(module, name)
            monkeypatch.setattr(
                module, name, lambda *args, real=real, name=name, **more: walks.append(name) or real(*args, **more)
            )
    x = Tensor([1, 2, 3])
    for turn in range(3):
        walks.clear()
        before = nodes_made()
        (x + 1).realize()
        if turn:
            assert walks == ["postorder"] * (turn == 1)
            assert nodes_made() - before == 2
    assert len(made) == 1


# On disk


class _Backend(PythonBackend):
    """A backend whose programs are kept on disk."""

    def __init__(self, key: str = "k", name: str = "PYTHON", **target: int) -> None:
        super().__init__(name, 0)
        self.compiler.key = key
        self.target = Target(**target)


@pytest.fixture
def folder(tmp_path: Path):
    """An empty cache folder for this process."""
    with Context(TINYGRAFT_CACHE=str(tmp_path), CACHELEVEL=1):
        yield tmp_path


def test_all_that_a_plan_follows_from_is_in_the_name_of_its_pack(folder, monkeypatch):
    """The form, the device, its Target and compiler, the options, the source of this package; what BEAM found."""
    x = UOp.buffer("PYTHON", 4, dtypes.float32)
    one, two = key_of(UOp(Ops.NEG, x.dtype, (x,))), key_of(UOp(Ops.SQRT, x.dtype, (x,)))
    names = [
        pack.name_of(one, [_Backend()], Options()),
        pack.name_of(two, [_Backend()], Options()),
        pack.name_of(one, [_Backend("other")], Options()),
        pack.name_of(one, [_Backend(name="PYTHON:1")], Options()),
        pack.name_of(one, [_Backend(max_ops=7)], Options()),
        pack.name_of(one, [_Backend()], Options(noopt=True)),
    ]
    assert pack.name_of(one, [_Backend()], Options()) == names[0]
    monkeypatch.setattr(pack, "_source", lambda package: "another version")
    names.append(pack.name_of(one, [_Backend()], Options()))
    names.append(pack.name_of(one, [_Backend()], Options(beam=2)))
    database.add(database.SearchResult("k", "t", "c", "E", "", 1.0, 1.0), database.own_file())
    names.append(pack.name_of(one, [_Backend()], Options(beam=2)))
    assert len({*names}) == 9
    assert "" not in names


def test_nothing_has_a_name_where_nothing_is_kept(folder):
    """A compiler without a key, and CACHELEVEL=0."""
    x = UOp.buffer("PYTHON", 4, dtypes.float32)
    assert pack.name_of(key_of(x), [PythonBackend("PYTHON", 0)], Options()) == ""
    with Context(CACHELEVEL=0):
        assert pack.name_of(key_of(x), [_Backend()], Options()) == ""


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b"\xff", b'{"kernels": 5}', b'{"kernels": [["PYTHON"]]}', b'{"kernels": [], "steps": [[0]]}',
     b'{"kernels": [], "steps": [[9, "PYTHON", [0], [0]]], "memory": [0], "made": []}',
     b'{"kernels": [], "steps": [], "memory": [0], "made": [{"Thing": []}]}'],
)  # fmt: skip
def test_what_is_no_pack_is_as_good_as_none(folder, content):
    """A sound entry of the disk cache with something else in it."""
    diskcache.put("a" * 48, content)
    assert diskcache.get("a" * 48) == content
    assert pack.read("a" * 48, [_Backend()]) is None


SCRIPT = """
import sys
from tinygraft import GlobalCounters, Tensor, Variable
from tinygraft.uop.uop import nodes_made
x = Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).realize()
before = nodes_made()
assert (x.softmax(1) @ x.T + x.sum()).argmax(1).tolist() == [1, 1]
assert x[:, : Variable("n", 1, 3).bind(2)].sum().item() == 12.0
print(GlobalCounters.kernels_compiled, GlobalCounters.kernel_count, "tinygraft.codegen.linearise" in sys.modules)
"""


def run(folder: object, **settings: str) -> tuple[int, int]:
    """How many kernels a new process compiles and launches, with its caches in folder."""
    environment = os.environ | {"TINYGRAFT_CACHE": str(folder), "DEV": "CPU", "CACHELEVEL": "1", "SPEC": "0"} | settings
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    compiled, launched, *_ = done.stdout.split()
    return int(compiled), int(launched)


def test_a_second_process_has_the_plans_of_the_first(tmp_path):
    """Nothing is compiled, and the same kernels run."""
    compiled, launched = run(tmp_path)
    assert compiled > 1
    assert run(tmp_path) == (0, launched)


def test_signed_zeros_have_plans_of_their_own() -> None:
    """Two leaves that compare equal and are not the same number."""
    for device in (Device.DEFAULT, "PYTHON"):
        found = [(1.0 / Tensor(zero, device=device)).item() for zero in (0.0, -0.0, 0.0)]
        assert found == [math.inf, -math.inf, math.inf]


def test_a_long_graph_is_looked_for_by_its_form_first(monkeypatch) -> None:
    """One whose plan is known is not copied with slices of their own, even where others have families."""
    rows = Tensor([[float(i)] * 4 for i in range(4)]).realize()

    def value() -> Tensor:
        row = rows[1]
        for _ in range(3):
            row = row * row + row
        return row.sum()

    first = value().item()
    monkeypatch.setattr(plan, "LONG", 1)
    monkeypatch.setattr(plan, "_varying", {(Ops.CONST,)})
    monkeypatch.setattr(plan, "_own_picks", lambda order, outputs: pytest.fail("it was copied"))
    assert value().item() == first
