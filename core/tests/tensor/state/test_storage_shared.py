"""Views and others: a view given away is its base's memory, and what others write shows in every view of it."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, GlobalCounters, Tensor, TinyJit
from tinygraft.tensor.state.strides import StridedLayout, layout_of, row_major
from tinygraft.tensor.state.view_steps import _moved

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True, params=["PYTHON", "CPU"])
def device(request: pytest.FixtureRequest) -> Any:
    """Both devices in host memory."""
    with Context(DEV=request.param):
        yield request.param


def numbers(*shape: int) -> Tensor:
    """0, 1, 2, ... in memory."""
    return Tensor(np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)).realize()


VIEWS: dict[str, Callable[[Any], Any]] = {
    "part": lambda t: t[1, 1:, 1:3], "step": lambda t: t[:, ::2], "permute": lambda t: t.permute(2, 0, 1),
    "expand": lambda t: t[:, :1].expand(2, 5, 4), "unfold": lambda t: t.unfold(2, 2, 1),
    "split axis": lambda t: t.reshape(1, 6, 1, 2, 2), "joined axes": lambda t: t[:, :2].reshape(2, 8),
    "bits": lambda t: t[0].bitcast("float32").bitcast("int32"), "diagonal": lambda t: t[1].diagonal(),
    "detach": lambda t: t.detach()[1:], "number": lambda t: t[1, 2, 3], "no elements": lambda t: t[:, 1:1],
    "axes of one": lambda t: t[:1, :, 2:3].reshape(1, 3), "all": lambda t: t.reshape(24), "base": lambda t: t,
}  # fmt: skip
BACKWARDS: dict[str, Callable[[Any], Any]] = {"flip": lambda t: t.flip(1), "[::-1]": lambda t: t[:, ::-1, 1]}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_given_away_is_its_base_s_memory(name: str) -> None:
    """NumPy and PyTorch write the base through it, and see what is assigned to the base."""
    t = numbers(2, 3, 4)
    view, expected = VIEWS[name](t), VIEWS[name](t).numpy()
    other = t.reshape(-1)
    theirs = np.from_dlpack(view)
    assert (theirs.shape, theirs.tolist()) == (expected.shape, expected.tolist())
    assert torch.from_dlpack(view).tolist() == view.data().tolist() == expected.tolist() if expected.size else True
    other.numpy()
    theirs[...] = -7
    count = len(set(expected.reshape(-1).tolist()))
    assert ((t == -7).sum().item(), (other == -7).sum().item()) == (count, count)
    assert view.tolist() == np.full_like(expected, -7).tolist()
    t.assign(numbers(2, 3, 4)).realize()
    assert theirs.tolist() == expected.tolist()


@pytest.mark.parametrize("name", VIEWS | BACKWARDS)
def test_data_of_a_view_has_strides(name: str) -> None:
    """It is read-only, of the view's shape and format, and shows what is assigned to the base."""
    t = numbers(2, 3, 4)
    view = (VIEWS | BACKWARDS)[name](t)
    data = view.data()
    assert (data.format, data.readonly) == ("i", True)
    assert data.shape == (view.shape if view.numel() else (0,))
    t.assign(t * 10).realize()
    assert data.tolist() == (view.tolist() if view.numel() else [])


@pytest.mark.parametrize("name", BACKWARDS)
def test_a_view_that_runs_backwards_is_not_given_away(name: str) -> None:
    """PyTorch ends the process when it is given one; a copy can be had."""
    t = numbers(2, 3, 4)
    view = BACKWARDS[name](t)
    with pytest.raises(
        BufferError,
        match=r"^this view runs backwards through the memory that it shares, with strides \(.*-4.*\) for shape \(2, 3.*"
        r"which not all libraries with DLPack support\n  made at .*\n  hint: share a copy of it, as in t = t.clo",
    ):
        np.from_dlpack(view)
    assert np.from_dlpack(view.clone()).tolist() == np.from_dlpack(view, copy=True).tolist() == view.tolist()
    del t
    assert np.from_dlpack(view).tolist() == view.tolist()  # nobody's memory but its own


def test_a_view_without_strides_is_not_given_away() -> None:
    """The error says why and what to do, and so does data."""
    t = numbers(2, 3)
    view = t.T.reshape(6)
    for give in (lambda: np.from_dlpack(view), view.data):
        with pytest.raises(
            BufferError,
            match=r"^no strides say where the elements of this view are, of shape \(6,\): it was reshaped where its ele"
            r"ments are not one after another in the memory that it shares\n  made at .*\n  hint: share a copy of",
        ):
            give()
    assert view.clone().data().tolist() == view.numpy().tolist() == [0, 3, 1, 4, 2, 5]
    del t
    assert np.from_dlpack(view).tolist() == view.data().tolist() == [0, 3, 1, 4, 2, 5]


def test_numpy_of_a_view_is_a_copy() -> None:
    """As of any tensor: writes to either are not seen by the other."""
    t = numbers(4)
    view = t[1:3]
    theirs = view.numpy()
    theirs[0] = 9
    t += 1
    assert (theirs.tolist(), view.tolist(), np.asarray(view).tolist()) == ([9, 2], [2, 3], [2, 3])


def test_what_others_write_shows_in_views_that_were_read_before() -> None:
    """Memory given away and memory taken: a view keeps no elements while somebody outside can write them."""
    theirs = array("f", [1, 2, 3, 4])
    for t, outside in (
        (Tensor.from_blob(theirs.buffer_info()[0], 4), theirs),
        (Tensor([1.0, 2, 3, 4]).realize(), None),
    ):
        view = t[:2]
        view.numpy()
        outside = np.from_dlpack(t) if outside is None else outside
        for value in (7.0, 8.0):
            outside[0] = value
            assert (view.tolist(), (view * 2).tolist()) == ([value, 2.0], [value * 2, 4.0])
        del t
        outside[1] = 9.0
        assert view.realize().tolist() == [8.0, 9.0]
        view += 1
        view.realize()
        assert list(outside) == [9.0, 10.0, 3.0, 4.0]


def test_a_view_keeps_its_elements_again_when_nobody_else_has_the_memory() -> None:
    """Then the second read launches nothing."""
    t = numbers(6, 6)
    view, theirs = t[::2, 1:3], np.from_dlpack(t)
    view.numpy()
    GlobalCounters.reset()
    view.numpy()
    assert GlobalCounters.kernel_count == 1
    del theirs
    view.numpy()
    GlobalCounters.reset()
    view.numpy()
    assert GlobalCounters.kernel_count == 0


def test_the_memory_stays_while_others_have_a_part() -> None:
    """Base and view may go."""
    t = numbers(2, 3)
    theirs, data = np.from_dlpack(t.T), t[1].data()
    del t
    others = [Tensor([7] * 6).realize() for _ in range(4)]
    assert (theirs.tolist(), data.tolist(), len(others)) == ([[0, 3], [1, 4], [2, 5]], [3, 4, 5], 4)


def test_views_of_foreign_memory_under_tiny_jit() -> None:
    """As arguments, read or written, and from outside: each call has what is there when it begins."""
    theirs = array("f", range(8))
    t = Tensor.from_blob(theirs.buffer_info()[0], 8)
    double = TinyJit(lambda part: (part * 2).realize())
    for i in range(5):
        view = t[i : i + 2]
        theirs[i] += 10
        assert double(view).tolist() == [2 * (10.0 + i), 2 * (1.0 + i)]
        theirs[i] += 1
        assert view.tolist() == [11.0 + i, 1.0 + i]
    assert double.captured == 1
    grow = TinyJit(lambda part: part.assign(part + 1).realize())
    for _ in range(4):
        grow(t[1:3])
    assert list(theirs)[:4] == [11.0, 16.0, 17.0, 14.0]
    outside = t[4:6]
    add = TinyJit(lambda x: (x + outside).realize())
    for i in range(5):
        theirs[4] = i
        assert add(Tensor([1.0, 1.0]).realize()).tolist() == [i + 1.0, 6.0]
    assert add.captured == 1


def test_a_pending_write_is_done_before_memory_is_given_away() -> None:
    """Of another view of it, too."""
    t = numbers(2, 3)
    left, right = t[:, 0], t[:, 1:]
    right.assign(right * 10)
    left += 5
    assert np.from_dlpack(t[1]).tolist() == [*left[1:].data().tolist(), 40, 50] == [8, 40, 50]
    expression = numbers(4) * 2
    part = expression[1:]
    np.from_dlpack(part)[0] = 50
    assert expression.tolist() == [0, 50, 4, 6]


def test_complex_parts_are_shared() -> None:
    """real and imag, of which the tensor is made; itself it has to be copied."""
    z = Tensor([1 + 2j, 3 + 4j]).realize()
    np.from_dlpack(z.real)[0] = 50
    np.from_dlpack(z.imag[1:])[0] = 60
    copied = np.from_dlpack(z)
    copied[0] = 0
    assert (z.tolist(), z.imag.data().tolist()) == ([50 + 2j, 3 + 60j], [2.0, 60.0])


def test_strides_are_those_of_numpy() -> None:
    """Random chains: where there are strides they say where the elements are."""
    rng = np.random.default_rng(0)
    without = 0
    for _ in range(300):
        shape = tuple(int(n) for n in rng.integers(1, 5, size=rng.integers(1, 4)))
        t = Tensor(np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape))
        index, view = np.arange(t.numel()).reshape(shape), t
        for _ in range(rng.integers(1, 5)):
            view = _random_move(view, rng)
        for op, _, _, arg, _ in view._chain if view is not t else ():
            index = _moved(index, op, arg)
        found = layout_of(shape, view._chain if view is not t else ())
        if found is None:
            without += 1
            continue
        flat = np.arange(t.numel())
        strides = [stride * flat.itemsize for stride in found.strides]
        memory = flat if index.size else np.zeros(1, np.int64)
        offset = found.offset * flat.itemsize if index.size else 0
        assert np.ndarray(found.shape, flat.dtype, memory, offset, strides).tolist() == index.tolist()
    assert 10 < without < 100
    assert StridedLayout(0, (2, 1), row_major((2, 1))).is_row_major()
    assert not StridedLayout(0, (2, 2), (1, 2)).is_row_major()


def _random_move(t: Tensor, rng: Any) -> Tensor:
    kind = rng.integers(6)
    axis = int(rng.integers(t.ndim))
    if kind == 0:
        return t.permute(*[int(a) for a in rng.permutation(t.ndim)])
    if kind == 1:
        return t.flip(axis)
    if kind == 2:
        n = int(t.shape[axis])
        start = int(rng.integers(n + 1))
        return t.narrow(axis, start, int(rng.integers(n + 1 - start)))
    if kind == 3:
        return t.unsqueeze(axis).expand(*t.shape[:axis], 2, *t.shape[axis:])
    if kind == 4 and int(t.shape[axis]) >= 2:
        return t.unfold(axis, 2, int(rng.integers(1, 3)))
    size = int(t.numel())
    first = next(n for n in (4, 3, 2, 1) if size % n == 0)
    return t.reshape(first, -1) if size else t.reshape(-1)
