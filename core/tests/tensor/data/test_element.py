"""Elements that are read one by one: without a kernel for each place, and with the values that kernels give."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graph_numpy import values
from tinygraft import Context, Device, GlobalCounters, Tensor, TinyJit

DATA = np.array([[0.5, -2.0, np.nan, 3.0], [np.inf, -0.0, 1e-3, -7.25], [2.0, 2.0, -1.0, 8.0]], np.float32)
INTS = np.arange(-6, 6, dtype=np.int32).reshape(3, 4)


def launched(what: Callable[[], Any]) -> int:
    """How many kernels run meanwhile."""
    before = GlobalCounters.kernel_count
    what()
    return GlobalCounters.kernel_count - before


def elements(t: Tensor) -> list[Any]:
    """All elements, each read on its own."""
    return [t[place].item() for place in itertools.product(*map(range, t.shape))]


def same(found: list[Any], wanted: Any) -> None:
    """The same numbers, signs of zeros and NaN included."""
    assert [type(f) for f in found] == [type(w) for w in wanted]
    assert list(map(repr, found)) == list(map(repr, wanted))


EXACT: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "memory": lambda x, i: x, "flip": lambda x, i: x.flip(0, 1), "permute": lambda x, i: x.permute(1, 0),
    "pad": lambda x, i: x.pad(((1, 0), (0, 2))), "reshape": lambda x, i: x.reshape(2, 6)[:, ::2],
    "expand": lambda x, i: x[:, None].expand(3, 2, 4), "sum": lambda x, i: x + i, "ratio": lambda x, i: x / i,
    "product": lambda x, i: -x * x, "compare": lambda x, i: x < i, "isnan": lambda x, i: x.isnan(),
    "where": lambda x, i: (i > 0).where(x, 1), "quotient": lambda x, i: i // 4, "rest": lambda x, i: i % -4,
    "shift": lambda x, i: i << 3, "bits": lambda x, i: ~i & 5, "cast": lambda x, i: x.cast("int8"),
    "max": lambda x, i: x.maximum(i), "root": lambda x, i: x.sqrt(), "constant": lambda x, i: Tensor.full((2, 3), 0.1),
    "range": lambda x, i: Tensor.arange(7) * 2,
    "detached": lambda x, i: x.detach().contiguous(),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_an_exact_expression_is_computed_for_the_element(name: str) -> None:
    """Views of memory and what the host computes as devices do: no kernel runs, and the numbers are theirs."""
    x, i = Tensor(DATA).realize(), Tensor(INTS).realize()
    t = EXACT[name](x, i)
    found: list[Any] = []
    assert launched(lambda: found.extend(elements(t))) == 0
    same(found, t.clone().flatten().tolist())


@pytest.mark.parametrize("name", ["sin", "softmax", "cumsum", "matmul", "chain"])
def test_another_expression_is_computed_once_as_a_whole(name: str) -> None:
    """Functions that devices approximate, sums and long expressions: one computation serves all elements."""
    x = Tensor(np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)).realize()
    t = {
        "sin": lambda: x.sin(), "softmax": lambda: x.softmax(1), "cumsum": lambda: x.cumsum(0),
        "matmul": lambda: x @ x.T, "chain": lambda: sum((x,) * (64 + 2)) + x,
    }[name]()  # fmt: skip
    once = launched(lambda: t.clone().realize())
    found: list[Any] = []
    assert launched(lambda: found.extend(elements(t))) == once
    same(found, t.flatten().tolist())


def test_a_sorted_tensor_is_computed_once_as_a_whole() -> None:
    """Where the device has a routine for it, what stored its result for another tensor has stored it for this one."""
    x = Tensor(np.linspace(3, -3, 12, dtype=np.float32).reshape(3, 4)).realize()
    for setting, kept in ((0, False), (1, bool(Device[x.device].target.routines))):
        with Context(ROUTINES=setting):
            t = x.sort(1)[0]
            once = launched(lambda t=t: t.clone().realize())
            found: list[Any] = []
            assert launched(lambda t=t, found=found: found.extend(elements(t))) == (0 if kept else once)
            same(found, t.flatten().tolist())


def test_a_tensor_whose_elements_were_read_is_still_an_expression() -> None:
    """Its gradient reaches what it was made of."""
    x = Tensor([1.0, 2.0, 3.0])
    y = x.sin()
    assert y[1].item() == pytest.approx(np.sin(2.0))
    np.testing.assert_allclose(y.sum().gradient(x)[0].numpy(), np.cos([1, 2, 3]), rtol=1e-6)


def test_elements_in_lists_are_read_one_by_one_too() -> None:
    """A tensor of elements of others costs no kernels, and numpy() of an element has its shape and dtype."""
    x = Tensor(DATA).realize()
    found: list[Tensor] = []
    assert launched(lambda: found.append(Tensor([[x[i, j] for i in range(3)] for j in range(4)]))) == 0
    np.testing.assert_array_equal(values(found[0]), DATA.T)
    one = x[1:2, 3:].numpy()
    assert (one.shape, one.dtype, one.tolist()) == ((1, 1), np.float32, [[-7.25]])


def test_an_element_follows_assignments() -> None:
    """The tensor has its new value, tensors made before have theirs, and a copy for reading is not mistaken for it."""
    x = Tensor([1.0, 2.0, 4.0]).realize()
    y = x.exp2()
    assert elements(y) == [2.0, 4.0, 16.0]
    x[1] = 3.0
    assert (elements(x), elements(y)) == ([1.0, 3.0, 4.0], [2.0, 4.0, 16.0])
    x.assign(x + 1).realize()
    z = x.exp2()
    assert (elements(x), elements(y), elements(z)) == ([2.0, 4.0, 5.0], [2.0, 4.0, 16.0], [4.0, 16.0, 32.0])


def test_an_element_of_a_large_expression_is_computed_alone() -> None:
    """One number of many costs one number."""
    x = Tensor.ones(2**14 + 1).contiguous().realize()
    y = x.exp2()
    assert launched(lambda: y[7].item()) == 1
    assert launched(lambda: y[8].item()) == 1


def test_random_numbers_are_drawn_once() -> None:
    """Elements belong to the same draw, and the tensor has it."""
    t = Tensor.rand(5)
    found = elements(t)
    same(found, t.tolist())


def test_a_jit_sees_the_read() -> None:
    """Within a TinyJit an element is read as anything is, so that the capture knows of it."""

    @TinyJit
    def step(x: Tensor) -> Tensor:
        return (x * 2 if x[0].item() > 0 else x).realize()

    found = [step(Tensor([v, 1.0]).realize()).tolist() for v in (1.0, -1.0, 2.0, -3.0)]
    assert found == [[2.0, 2.0], [-1.0, 1.0], [4.0, 2.0], [-3.0, 1.0]]


def test_integers_wrap_and_float32_is_rounded_as_on_a_device() -> None:
    """Each step has its dtype."""
    x, i = Tensor([0.1, 0.7]).realize(), Tensor([2**31 - 1, 3]).realize()
    same(elements(x * 3 + x), (x * 3 + x).tolist())
    same(elements(i + 1), [-(2**31), 4])
    same(elements(i.cast("uint8") * i.cast("uint8")), [1, 9])


def test_memory_that_somebody_else_writes_is_read_anew() -> None:
    """Before and after another library has it: nothing that was computed for reading is kept."""
    x = np.array([1.0, 2.0, 3.0], np.float32)
    theirs = Tensor.from_dlpack(x).sin()
    assert theirs[0].item() == pytest.approx(np.sin(1.0))
    x[0] = 50
    assert theirs[0].item() == pytest.approx(np.sin(50.0))
    mine = Tensor([1.0, 2.0, 3.0]).realize()
    sine = mine.sin()
    assert sine[0].item() == pytest.approx(np.sin(1.0))
    view = np.from_dlpack(mine)  # type: ignore[arg-type]
    view[0] = 50
    assert sine[0].item() == pytest.approx(np.sin(50.0))
