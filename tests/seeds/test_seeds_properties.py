"""The page "Tensor properties", run in page order in one interpreter: every signature, and everything it prints.

properties.txt holds the signatures and the examples. Text is compared exactly. Two differences are ours by design:
`size` is a property whose call gives what the page shows, and the text of a buffer over several devices, with its
strides and views, is not compared. What the page says in words of methods without an example is tested below.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from read_page import Result, read_page, run_cell
from seed_pages import agrees, difference, read_signatures
from tinygraft import Tensor, Variable, dtypes
from tinygraft.errors import ShapeError

PAGE = Path(__file__).parent / "properties.txt"
CELLS = read_page(PAGE)
SIGNATURES = read_signatures(PAGE.read_text(encoding="utf-8"))
NOT_COMPARED = {"shard": "the text of a buffer over several devices"}


@pytest.fixture(scope="module")
def results() -> list[Result]:
    """What each cell of the page gave."""
    names = {"__name__": "properties", "np": np, "Tensor": Tensor, "dtypes": dtypes}
    return [run_cell(cell, names) for cell in CELLS]


def test_the_page_is_whole() -> None:
    """The page has its 26 properties and methods and 13 examples."""
    assert (len(SIGNATURES), len(CELLS)) == (26, 13)


@pytest.mark.parametrize("name", [name for name in SIGNATURES if name != "size"])
def test_a_signature_is_that_of_the_page(name: str) -> None:
    """Every call that the page documents works as written: names, order and defaults of the parameters."""
    assert difference(Tensor, name, SIGNATURES[name]) == ""


@pytest.mark.parametrize("place", range(len(CELLS)), ids=[f"{n}-{cell.note}" for n, cell in enumerate(CELLS)])
def test_an_example_prints_what_the_page_shows(results: list[Result], place: int) -> None:
    """An example prints its text, and floats within 1e-5."""
    result, cell = results[place], CELLS[place]
    assert not result.error, result.error
    if cell.note in NOT_COMPARED:
        assert result.printed
        return
    assert agrees(result.printed.rstrip("\n"), cell.shows), f"{result.printed}\nwhere the page shows\n{cell.shows}"


def test_size_is_a_number_that_can_be_called() -> None:
    """size is the number of elements; size() is the shape and size(dim) one length, of whatever tensor."""
    t = Tensor.empty(4, 5, 6)
    assert (t.size, t.size(), t.size(1), t.size(dim=-1)) == (120, (4, 5, 6), 5, 6)


def test_what_is_known_without_computing() -> None:
    """shape, dtype and device are properties of a tensor that has not been computed."""
    t = Tensor.rand(2, 3, dtype=dtypes.float16)
    assert (t.shape, t.dtype, t.device) == ((2, 3), dtypes.float16, Tensor.empty(1).device)
    assert t.uop.base.realized is None


def test_a_schedule_lists_the_calls_and_the_values_of_variables() -> None:
    """schedule_with_vars gives calls in order and the bound variables; schedule gives the calls; neither runs them."""
    n = Variable("n", 1, 8).bind(3)
    t = Tensor.arange(8)[:n].sum()
    calls, values = t.schedule_with_vars()
    assert values == {"n": 3}
    assert len(t.schedule()) == len(calls) == 1
    assert t.uop.base.realized is None
    assert t.item() == 3


def test_realize_computes_several_tensors_and_returns_the_first() -> None:
    """realize(*lst) makes each of them memory, also with do_update_stats=False."""
    a, b = Tensor([1, 2]) + 1, Tensor([3, 4]) + 1
    assert a.realize(b, do_update_stats=False) is a
    assert a.uop.base.realized is not None
    assert b.uop.base.realized is not None


def test_replace_takes_the_data_of_another_tensor() -> None:
    """replace changes dtype and value; a tensor of another shape is refused."""
    t = Tensor([1, 2])
    assert t.replace(Tensor([0.5, 1.5])) is t
    assert (t.tolist(), t.dtype) == ([0.5, 1.5], dtypes.float32)
    with pytest.raises(ShapeError, match=r"cannot replace a tensor of shape \(2,\) by one of shape \(3,\)"):
        t.replace(Tensor([1, 2, 3]))


def test_assign_changes_a_tensor_in_place() -> None:
    """assign gives the tensor a new value in the memory that it has."""
    t = Tensor([1, 2]).realize()
    memory = t.uop.base.realized
    assert t.assign(Tensor([3, 4])) is t
    assert t.realize().tolist() == [3, 4]
    assert t.uop.base.realized is memory


def test_detach_cuts_the_gradient() -> None:
    """A detached tensor has the same data and no gradient."""
    t = Tensor([2.0], requires_grad=True)
    (t * t.detach()).sum().backward()
    assert t.grad is not None
    assert t.grad.tolist() == [2.0]


def test_tensors_move_to_a_device() -> None:
    """to gives a tensor on the device, to_ moves the tensor; where it is already, it is itself."""
    t = Tensor([1, 2], device="PYTHON")
    assert t.to("PYTHON") is t
    there = t.to("NULL")
    assert (there.device, t.device) == ("NULL", "PYTHON")
    t.to_("NULL")
    assert t.device == "NULL"


def test_contiguous_keeps_values_and_gradients() -> None:
    """contiguous and contiguous_backward are identities whose gradient is the identity."""
    t = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    turned = t.transpose()
    assert turned.contiguous().tolist() == turned.contiguous_backward().tolist() == [[1.0, 3.0], [2.0, 4.0]]
    (turned.contiguous() * turned.contiguous_backward()).sum().backward()
    assert t.grad is not None
    assert t.grad.tolist() == [[2.0, 4.0], [6.0, 8.0]]


def test_backward_needs_one_element_or_a_gradient() -> None:
    """Without gradient the tensor has one element; with it backward starts there; retain_graph is accepted."""
    t = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ShapeError, match=r"backward needs a tensor of one element, this one has shape \(2,\)"):
        (t * 2).backward()
    doubled = t * 2
    doubled.backward(gradient=Tensor([1.0, 10.0]), retain_graph=True)
    doubled.backward(Tensor([1.0, 10.0]))
    assert t.grad is not None
    assert t.grad.tolist() == [4.0, 40.0]
