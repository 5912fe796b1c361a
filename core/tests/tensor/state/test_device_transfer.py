"""Moving tensors: to one device or several, cut or whole; what is copied for it, and what cannot be."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Device, GlobalCounters, Tensor, TinyJit, Variable, dtypes, grad, nn, vmap
from tinygraft.device.interfaces import Backend
from tinygraft.errors import DeviceError, DTypeError, ShapeError
from tinygraft.schedule import collectives
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import CopyCall

TWO = ("PYTHON", "PYTHON:1")
THREE = (*TWO, "PYTHON:2")


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    """What names no device is on the first of them; every node is checked."""
    with Context(DEV="PYTHON", SPEC=2):
        yield


def numbers(*shape: int) -> Tensor:
    """0, 1, 2, ... in memory."""
    return Tensor.arange(int(np.prod(shape)), dtype=dtypes.float32).reshape(*shape).contiguous().realize()


def calls(*tensors: Tensor) -> tuple[int, int]:
    """How many kernels and how many copies tensors take."""
    found = tensors[0].schedule(*tensors[1:])
    copies = sum(isinstance(call, CopyCall) for call in found)
    return len(found) - copies, copies


# Copies


@pytest.mark.parametrize("dtype", sorted(dtypes.all, key=lambda d: d.name), ids=str)
def test_every_dtype_is_moved(dtype: Any) -> None:
    """There and back, whole and cut, the bits are the same."""
    t = Tensor([0, 1, 2, 3, 5], dtype=dtype)
    there = t.to("PYTHON:1")
    assert there.device == "PYTHON:1" and there.dtype is dtype
    assert there.tolist() == there.to("PYTHON").tolist() == t.shard(THREE, 0).to("PYTHON:2").tolist() == t.tolist()


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2)])
def test_nothing_is_moved(shape: tuple[int, ...]) -> None:
    """A tensor without elements goes anywhere, and is cut anywhere."""
    t = Tensor.zeros(*shape)
    assert t.to("PYTHON:1").numpy().shape == shape
    for axis in range(len(shape)):
        cut = t.shard(TWO, axis).realize()
        assert (cut + 1).numpy().shape == shape
        assert cut.sum().item() == 0


def test_views_are_moved() -> None:
    """Only what a view shows is moved."""
    t = numbers(4, 3)
    moved = t[1:3].T.flip(0).to("PYTHON:1")
    assert moved.tolist() == t[1:3].T.flip(0).tolist()
    assert [call.target.arg.size for call in t[1:3].to("PYTHON:1").schedule() if isinstance(call, CopyCall)] == [6]


def test_to_is_itself_where_it_is() -> None:
    """No node is added for a move to where a tensor is, whatever the spelling; shard gives a value all the same."""
    t = numbers(3)
    assert t.to("python:0") is t
    cut = t.shard(TWO, 0)
    assert cut.to(["python", "python:1"]) is cut
    assert cut.shard(TWO, 0, (2, 1)).uop is cut.uop
    assert t.shard(("PYTHON",), 0).uop is t.uop and t.to(("PYTHON:1",)).device == "PYTHON:1"


def test_a_move_in_place_takes_the_gradient_along() -> None:
    """to_ and shard_ change the tensor itself and its grad."""
    t = numbers(4)
    t.requires_grad = True
    (t * t).sum().backward()
    assert t.to_("PYTHON:1") is t
    assert (t.device, t.grad.device) == ("PYTHON:1", "PYTHON:1")
    t.shard_(TWO, 0, (1, 3))
    assert (t.sharding, t.grad.sharding, t.grad.tolist()) == ((0, (1, 3)), (0, (1, 3)), [0.0, 2.0, 4.0, 6.0])


@pytest.mark.parametrize("realized", [False, True])
def test_a_gradient_comes_back_through_a_copy(realized: bool) -> None:
    """It lives where the source does, lying as that does, whether the copy was computed before or not."""
    for source in (numbers(4), numbers(4).to("PYTHON:1"), numbers(4).shard(TWO, 0, (3, 1)), numbers(4).shard(TWO)):
        x = source.realize()
        x.requires_grad = True
        y = x.to("PYTHON:2")
        if realized:
            y.realize()
        (y * y).sum().backward()
        assert (x.grad.device, x.grad.sharding) == (x.device, x.sharding)
        assert x.grad.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_a_copy_under_tinyjit() -> None:
    """Moves are replayed as they were captured."""

    @TinyJit
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = (x + 1).to("PYTHON:1") * 2
        return y.realize(), y.to("PYTHON").sum().realize()

    for i in range(5):
        there, here = f(Tensor([float(i), 1.0]).realize())
        assert (there.device, there.tolist(), here.tolist()) == ("PYTHON:1", [2.0 * i + 2, 4.0], 2.0 * i + 6)
    assert f.captured == 1


def test_a_backend_may_copy_from_another_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target's backend is asked, with the handles of both; by default bytes go through the host."""
    asked: list[tuple[str, str, int]] = []
    default = Backend.copy_from

    def copy_from(self: Backend, target: Any, peer: Backend, source: Any, nbytes: int) -> None:
        asked.append((self.name, peer.name, nbytes))
        default(self, target, peer, source, nbytes)

    monkeypatch.setattr(type(Device["PYTHON"]), "copy_from", copy_from)
    assert numbers(3).to("PYTHON:1").tolist() == [0.0, 1.0, 2.0]
    assert asked == [("PYTHON:1", "PYTHON", 12)]


# Several devices


def test_devices_are_a_tuple() -> None:
    """device, sharding and repr of a tensor on several devices; base.realized has the memory of each."""
    t = numbers(5, 2).shard(TWO, 0)
    assert (t.device, t.shape, t.sharding) == (TWO, (5, 2), (0, (3, 2)))
    assert re.fullmatch(
        r"<Tensor <UOp \('PYTHON', 'PYTHON:1'\) \(5, 2\) float \(<Ops.SHARD: \d+>, None\)> "
        r"on \('PYTHON', 'PYTHON:1'\) with grad None>", repr(t))  # fmt: skip
    memory = t.realize().uop.base.realized
    assert [(buffer.device, buffer.size) for buffer in memory] == [("PYTHON", 6), ("PYTHON:1", 4)]
    assert t.numpy().tolist() == numbers(5, 2).tolist()


def test_axes_and_splits() -> None:
    """A negative axis, more devices than elements, uneven and empty parts, one device twice."""
    t = numbers(3, 2)
    assert t.shard(TWO, -1).sharding == (1, (1, 1))
    assert t.shard((*THREE, "PYTHON:3"), 0).sharding == (0, (1, 1, 1, 0))
    assert t.shard(TWO, 0, splits=[0, 3]).sharding == (0, (0, 3))
    twice = t.shard(("PYTHON", "PYTHON"), 1, splits=(2, 0)).realize()
    assert (twice + 1).tolist() == (t + 1).tolist()
    assert twice.sum(1).tolist() == t.sum(1).tolist()


def test_creation_on_several_devices() -> None:
    """Constructors take several names: each device has all of it."""
    made = [Tensor([1, 2], device=TWO), Tensor(3, device=TWO), Tensor.ones(2, device=TWO), Tensor.zeros(2, device=TWO),
            Tensor.arange(3, device=TWO), Tensor.eye(2, device=TWO), Tensor.full((2,), 4, device=TWO),
            Tensor.empty(2, device=TWO), Tensor.linspace(0, 1, 3, device=TWO),
            Tensor(np.ones(3), device=TWO)]  # fmt: skip
    assert [(t.device, t.sharding) for t in made] == [(TWO, None)] * len(made)
    assert [t.tolist() for t in made[:7]] == [[1, 2], 3, [1, 1], [0, 0], [0, 1, 2], [[1, 0], [0, 1]], [4, 4]]


def test_likes_are_cut_alike() -> None:
    """zeros_like and its relatives lie as the tensor does."""
    t = numbers(4).shard(TWO, 0, (1, 3))
    for like in (t.zeros_like(), t.full_like(3), t.rand_like(), t.randn_like(), t.empty_like()):
        assert (like.device, like.sharding) == (TWO, (0, (1, 3)))
    assert numbers(4).shard_like(t).sharding == (0, (1, 3))
    assert t.shard_like(numbers(2)).device == "PYTHON"


def test_random_numbers_are_those_of_one_device() -> None:
    """rand, randn, randint, dropout and randperm on several devices draw what the first one would."""

    def drawn(device: Any) -> list[Any]:
        Tensor.manual_seed(7)
        with Tensor.train():
            kept = Tensor.ones(8, device=device)
            kept = kept.shard(TWO, 0) if isinstance(device, tuple) else kept
            return [Tensor.rand(5, device=device).tolist(), Tensor.randn(3, device=device).tolist(),
                    Tensor.randint(4, device=device).tolist(), kept.dropout(0.5).tolist(),
                    Tensor.randperm(6, device=device).tolist()]  # fmt: skip

    assert drawn(TWO) == drawn("PYTHON")


def test_a_call_may_draw_more_than_once() -> None:
    """Two draws in one call are captured: the state of the random numbers stays in its memory."""
    found = []
    for wrap in (lambda f: f, TinyJit):
        Tensor.manual_seed(5)
        x = Tensor.ones(40, device=TWO).shard(TWO, 0).realize()
        with Tensor.train():
            call = wrap(lambda x: (x.dropout(0.5) * 2).dropout(0.5).realize())
            found.append([call(x).tolist() for _ in range(5)])
    assert found[0] == found[1]
    assert call.captured == 1


def test_what_is_read_twice_is_put_together_once() -> None:
    """A replicated tensor is read without a copy; of a cut one the parts are copied each time, none computed again."""
    whole, cut = numbers(4).shard(TWO).realize(), numbers(4).shard(TWO, 0).realize()
    GlobalCounters.reset()
    assert (whole.item() if whole.numel() == 1 else whole.tolist()) == [0.0, 1.0, 2.0, 3.0]
    assert GlobalCounters.kernel_count == 0
    assert cut.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert GlobalCounters.kernel_count == 2  # one copy, and the kernel that puts the parts together


def test_memory_is_not_shared_with_the_source() -> None:
    """What was put on several devices stays as it was when the source is written to, and the other way round."""
    t = numbers(4)
    copies, twins = t.shard(TWO).realize(), t.shard(("PYTHON", "PYTHON")).realize()
    t.assign(t + 10).realize()
    assert copies.tolist() == twins.tolist() == [0.0, 1.0, 2.0, 3.0]
    copies.assign(copies * 2).realize()
    twins[1] = 7
    assert (t.tolist(), copies.tolist()) == ([10.0, 11.0, 12.0, 13.0], [0.0, 2.0, 4.0, 6.0])
    assert twins.tolist() == [0.0, 7.0, 2.0, 3.0]


def test_an_assignment_stays_in_its_memory() -> None:
    """assign and writes by index go into the memory that each device has."""
    t = numbers(4, 2).shard(TWO, 0).realize()
    before = t.uop.base.realized
    t.assign(t + 1).realize()
    t[1] = 0
    t[:, 1] = Tensor([5.0, 6.0, 7.0, 8.0]).shard(TWO, 0)
    t[::2, 0] = Tensor([9.0, 9.0]).shard(TWO)
    t.realize()
    assert t.uop.base.realized == before
    assert t.tolist() == [[9.0, 5.0], [0.0, 6.0], [9.0, 7.0], [7.0, 8.0]]


def test_writes_into_different_parts_of_one_memory() -> None:
    """A tensor and its twin over the same memory, each written to where the other is not: both are right."""
    t = numbers(4, 2).shard(TWO, 0).realize()
    twin = t.contiguous()
    twin[0] = 8
    t[3] = 9
    t.realize(twin)
    assert twin.tolist() == [[8.0, 8.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]
    assert t.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [9.0, 9.0]]


def test_pickles_copies_and_files(tmp_path: Any) -> None:
    """A pickle keeps how a tensor lies; a file has its values; a state goes back into tensors that are cut."""
    t = numbers(4).shard(TWO, 0, (1, 3)).realize()
    for other in (pickle.loads(pickle.dumps(t)), copy.copy(t), copy.deepcopy(t)):
        assert (other.device, other.sharding, other.tolist()) == (TWO, (0, (1, 3)), t.tolist())
    nn.state.safe_save({"t": t}, str(tmp_path / "t"))
    state = nn.state.safe_load(str(tmp_path / "t"))
    assert state["t"].tolist() == t.tolist()
    on_two = nn.state.safe_load(str(tmp_path / "t"), device=TWO)["t"]
    assert (on_two.device, on_two.tolist()) == (TWO, t.tolist())

    class Model:
        def __init__(self) -> None:
            self.t = Tensor.zeros(4).shard(TWO, 0).realize()

    model = Model()
    nn.state.load_state_dict(model, state, verbose=False)
    assert (model.t.sharding, model.t.tolist()) == ((0, (2, 2)), t.tolist())
    assert memoryview(t.data()).tolist() == t.tolist()


def test_a_symbolic_size_beside_the_cut() -> None:
    """A front of symbolic length, of a tensor that is cut along another axis and along the same one."""
    n = Variable("n", 1, 4).bind(3)
    for axis in (0, 1):
        part = numbers(4, 3).shard(TWO, axis).realize().shrink(((0, n), (0, 3)))
        assert ((part * 2).sum().item(), (part * 2).realize().sum(0).tolist()) == (72.0, [18.0, 24.0, 30.0])


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_functions_are_transformed(axis: int | None) -> None:
    """grad and vmap rewrite a function of a tensor on several devices as of one on a single device."""

    def f(x: Tensor) -> Tensor:
        return (x.sin() * x).sum()

    one = numbers(4, 3)
    x = one.shard(TWO, axis)
    assert grad(f)(x).sharding == x.sharding
    np.testing.assert_array_equal(grad(f)(x).numpy(), grad(f)(one).numpy())
    np.testing.assert_array_equal(vmap(grad(f))(x).numpy(), vmap(grad(f))(one).numpy())


# What is copied


def test_operands_that_agree_copy_nothing() -> None:
    """Elementwise work and reductions over other axes are one kernel on each device, without a copy."""
    a, b = numbers(4, 3).shard(TWO, 0).realize(), numbers(4, 3).shard(TWO, 0).realize()
    row = numbers(3).shard(TWO).realize()
    assert calls(a * 2 + b) == (2, 0)
    assert calls((a * b + row).relu().sum(1)) == (2, 0)
    assert calls(a.T.reshape(3, 2, 2)[:, :, 1:]) == (2, 0)
    assert calls(a[1:3] + 1) == (2, 0)
    assert calls(Tensor.ones(4, 3, device=TWO) + a) == (2, 0)


def test_a_product_cut_along_each_of_its_axes() -> None:
    """Rows and columns of a product need no copy; a cut sum needs an allreduce."""
    x, w = numbers(4, 6), numbers(6, 8)
    expected = (x @ w).tolist()
    for left, right, copies in ((0, None, 0), (None, 1, 0), (1, 0, 2)):
        a, b = x.shard(TWO, left).realize(), w.shard(TWO, right).realize()
        assert calls(a @ b)[1] == copies
        assert (a @ b).tolist() == expected


@pytest.mark.parametrize("names", [TWO, THREE, (*THREE, "PYTHON:3")])
def test_an_allreduce_copies_each_part_to_all_others(names: tuple[str, ...]) -> None:
    """n devices take n * (n - 1) copies, and then have the same bits."""
    n = len(names)
    x = (Tensor.rand(n * 3, 5) * 1e3).realize().shard(names, 0).realize()
    total = x.sum(0)
    assert calls(total)[1] == n * (n - 1)
    total.realize()
    parts = [part.base.realized for part in total.uop.base.src]
    assert len({bytes(part.as_memoryview()) for part in parts}) == 1
    np.testing.assert_allclose(total.numpy(), x.numpy().sum(0), 1e-5)


def test_large_values_go_around_in_a_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three devices: twice as many copies, each of a third; the same bits on all, the same in every run."""
    monkeypatch.setattr(collectives, "RING", 10)
    x = (Tensor.rand(3, 14) * 1e3).realize()
    cut = x.shard(THREE, 0).realize()
    found = []
    for _ in range(2):
        total = cut.sum(0)
        sizes = [call.target.arg.size for call in total.schedule() if isinstance(call, CopyCall)]
        assert sorted(sizes) == [4] * 4 + [5] * 8
        total.realize()
        parts = [bytes(part.base.realized.as_memoryview()) for part in total.uop.base.src]
        assert len(set(parts)) == 1
        found.append(parts[0])
    assert found[0] == found[1]
    np.testing.assert_allclose(np.frombuffer(found[0], np.float32), x.numpy().sum(0), 1e-5)


def test_parts_that_are_empty_take_part_in_nothing() -> None:
    """A maximum over a cut axis does not see devices without elements."""
    x = numbers(3, 2).shard(THREE, 0, (0, 3, 0)).realize()
    assert calls(x.max(0))[1] == 2
    assert (x.max(0).tolist(), x.min(0).tolist(), x.prod(0).tolist()) == ([4.0, 5.0], [0.0, 1.0], [0.0, 15.0])


def test_only_missing_elements_are_copied() -> None:
    """Neighbours along a cut axis need one row of the next device."""
    x = numbers(6, 5).shard(TWO, 0).realize()
    pairs = x[1:] - x[:-1]
    moved = [call.target.arg.size for call in pairs.schedule() if isinstance(call, CopyCall)]
    assert moved == [5]
    assert pairs.tolist() == (numbers(6, 5)[1:] - numbers(6, 5)[:-1]).tolist()


def test_the_gradient_of_rows_of_a_table_is_combined() -> None:
    """Words of a batch that is cut add to a replicated table: each device adds its own, then all together."""
    table = numbers(5, 3).shard(TWO).realize()
    table.requires_grad = True
    words = Tensor([[0, 4], [1, 1], [2, 0]], dtype=dtypes.int32).shard(TWO, 0).realize()
    table[words].sum().backward()
    assert calls(table.grad)[1] == 2
    assert table.grad.tolist() == [[n] * 3 for n in (2.0, 2.0, 1.0, 0.0, 1.0)]
    assert (table.grad.device, table.grad.sharding) == (TWO, None)


# Mistakes


def sentence(error: type[Exception], text: str) -> Any:
    """pytest.raises of an error whose whole message this is, <> standing for a place in this file."""
    place = r"[^\n]*test_device_transfer\.py:\d+"
    return pytest.raises(error, match="^" + re.escape(text).replace("<>", place) + "$")


def test_operands_on_different_devices() -> None:
    """An error names both places and both operands' lines."""
    on_two, on_others, on_one = (Tensor.ones(2, device=d) for d in (TWO, ("PYTHON", "PYTHON:2"), "PYTHON"))
    with sentence(
        DeviceError,
        "cannot add tensors on different devices, ('PYTHON', 'PYTHON:1') and PYTHON\n"
        "  ('PYTHON', 'PYTHON:1') made at <>      PYTHON made at <>\n"
        "  hint: move one of them, as in t.to(('PYTHON', 'PYTHON:1'))",
    ):
        on_two + on_one
    with sentence(
        DeviceError,
        "cannot multiply tensors on different devices, ('PYTHON', 'PYTHON:1') and ('PYTHON', 'PYTHON:2')\n"
        "  ('PYTHON', 'PYTHON:1') made at <>      ('PYTHON', 'PYTHON:2') made at <>\n"
        "  hint: move one of them, as in t.to(('PYTHON', 'PYTHON:1'))",
    ):
        on_two * on_others
    with sentence(
        DeviceError,
        "cannot assign a tensor on PYTHON to one on ('PYTHON', 'PYTHON:1')\n"
        "  made at <>      assigned to the tensor made at <>\n"
        "  hint: move it first, as in t.assign(x.to(('PYTHON', 'PYTHON:1')))",
    ):
        on_two.assign(on_one)


def test_what_cannot_be_cut() -> None:
    """An axis that there is not, splits that do not add up, no axis at all, a symbolic length."""
    t = numbers(4, 3)
    with sentence(ShapeError, "axis 2 is not an axis of shape (4, 3): choose from -2 to 1\n  made at <>"):
        t.shard(TWO, 2)
    with sentence(
        ShapeError,
        "shard cannot cut axis 0 of (4, 3), which has 4 elements, into splits (1, 2): they have to be sizes that add "
        "up to 4\n  made at <>",
    ):
        t.shard(TWO, 0, (1, 2))
    with sentence(
        ShapeError,
        "shard cannot cut axis -1 of (4, 3), which has 3 elements, into splits (-1, 4): they have to be sizes that add "
        "up to 3\n  made at <>",
    ):
        t.shard(TWO, -1, (-1, 4))
    with sentence(ShapeError, "shard needs one split for each of 2 devices, got (1, 2, 1)\n  made at <>"):
        t.shard(TWO, 0, (1, 2, 1))
    with sentence(ShapeError, "shard got splits=(2, 2) and no axis to cut: say which, as in axis=0\n  made at <>"):
        t.shard(TWO, splits=(2, 2))
    with sentence(ShapeError, "shard cannot cut axis 0 of shape (): it has no axes\n  made at <>"):
        Tensor(1).shard(TWO, 0)
    with sentence(ShapeError, "shard cannot cut axis 0 of shape (n, 3): its length n is symbolic\n  made at <>"):
        t.shrink(((0, Variable("n", 1, 4)), (0, 3))).shard(TWO, 0)
    with sentence(DTypeError, "an axis is an integer, got 'x' for shape (4, 3)\n  made at <>"):
        t.shard(TWO, "x")  # type: ignore[arg-type]


def test_what_is_no_list_of_devices() -> None:
    """One name is no list; a list has names of devices, at least one; only one at a time is opened."""
    t = numbers(4)
    with sentence(DeviceError, "shard needs the names of several devices as a tuple, got 'PYTHON'"):
        t.shard("PYTHON", 0)
    with sentence(DeviceError, "a tensor is on at least one device, got no name"):
        t.shard((), 0)
    with sentence(DeviceError, "a device is named by a string NAME or NAME:ordinal, got 1"):
        t.to(("PYTHON", 1))  # type: ignore[arg-type]
    with sentence(DeviceError, "only one device at a time can be opened, got PYTHON, PYTHON:1"):
        Device[TWO]  # type: ignore[index]


def test_what_is_made_of_no_memory_gets_memory_of_its_own() -> None:
    """Two tensors of ones that need gradients have one each, on several devices too."""
    a, b = (Tensor.ones(2, device=TWO, requires_grad=True) for _ in range(2))
    (a * 2 + b * 3).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([2.0, 2.0], [3.0, 3.0])
    assert a.uop.op is Ops.ASSIGN and a.uop.src[0].op is Ops.MULTI


def test_the_gradient_beside_a_number_is_that_on_one_device() -> None:
    """A maximum with a number gives equal elements the same gradient wherever the number has been put."""
    found = []
    for number in (
        Tensor(1.0),
        Tensor(1.0).to("PYTHON:1").to("PYTHON"),
        Tensor(1.0, device=TWO),
        Tensor(1.0).shard(TWO),
    ):
        x = numbers(3).to(number.device).realize()
        x.requires_grad = True
        x.maximum(number).sum().backward()
        found.append(x.grad.tolist())
    assert found == [found[0]] * 4
