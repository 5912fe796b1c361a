"""Leaves, flags and detached views beside PyTorch, whatever was computed before: what a reader found by reading."""

from __future__ import annotations

import copy
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tinygraft import Tensor


def listed(grad: Tensor | None) -> list[float] | None:
    """The values of a gradient, if there is one."""
    return None if grad is None else grad.tolist()


@pytest.mark.parametrize("part", ["real", "imag"])
def test_the_first_part_of_a_process_is_a_view(part: str) -> None:
    """The theme is imported then, and its property called by that."""
    code = f"""
from tinygraft import Tensor
t = Tensor([1 + 2j, 3j]) if {part!r} == "imag" else Tensor([1.0, 2.0])
r = t.{part}
r[0] = 7.0
print(t.tolist()[0], t.{part}.tolist()[0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == (["7.0", "7.0"] if part == "real" else ["(1+7j)", "7.0"])


WRITES: dict[str, Any] = {
    "slice": slice(0, 1),
    "mask": [True, False, False],
    "list": [0],
    "tensor": "index",
    "tensor of a mask": "mask",
}


@pytest.mark.parametrize("requires", [False, True])
@pytest.mark.parametrize("how", WRITES)
def test_what_is_not_written_through_detach_keeps_its_gradient(how: str, requires: bool) -> None:
    """The written element is a constant, also where the new value has a gradient."""
    index = {"index": Tensor([0]), "mask": Tensor([True, False, False])}.get(str(WRITES[how]), WRITES[how])
    x, other = Tensor([1.0, 2.0, 3.0], requires_grad=True), Tensor([1.0], requires_grad=True)
    y = x * x
    d = y.detach()
    d[index] = other.sum() * 5 if requires else 5.0
    assert y.tolist() == d.tolist() == [5.0, 4.0, 9.0]
    (y.sum() + other.sum()).backward()
    assert (x.grad.tolist(), other.grad.tolist()) == ([0.0, 4.0, 6.0], [1.0])


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_a_value_of_a_leaf_with_a_pending_write_is_no_leaf(whole: bool, reads: bool) -> None:
    """requires_grad_() changes nothing about it."""
    w = Tensor([1.0, 2.0], requires_grad=True)
    w -= 0.5
    c = Tensor([5.0, 6.0]) * 1
    if whole:
        c.assign(w * 2)
    else:
        c[0:2] = w * 2
    if reads:
        c.numpy()
    c.requires_grad_()
    other = Tensor([1.0], requires_grad=True)
    ((c * 3).sum() + other.sum()).backward()
    assert listed(w.grad) == [6.0, 6.0]


@pytest.mark.parametrize("realised", [False, True])
def test_the_attribute_is_the_method(realised: bool) -> None:
    """t.requires_grad = True makes a leaf of its own, of a computed value too."""
    x = Tensor([1.0, 2.0])
    a, b = (x.detach().clone() for _ in range(2))
    if realised:
        Tensor.realize(a, b)
    a.requires_grad = True
    b.requires_grad = True
    (a * 2 + b * 3).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([2.0, 2.0], [3.0, 3.0])
    a = x * 2
    a.requires_grad = True
    (a * 2 + (x * 2) * 3).sum().backward()
    assert a.grad.tolist() == [2.0, 2.0]
    a.requires_grad = False
    assert a.requires_grad is False


@pytest.mark.parametrize("realised", [False, True])
def test_a_copy_of_a_leaf_is_a_leaf(realised: bool) -> None:
    """copy() gives one of its own with the same value; contiguous() is the leaf itself to gradients."""
    w = Tensor([1.0, 2.0], requires_grad=True)
    if realised:
        w.realize()
    c = copy.copy(w)
    (w * 2 + c * 3).sum().backward()
    assert (listed(w.grad), listed(c.grad)) == ([2.0, 2.0], [3.0, 3.0])
    c += 1
    assert (w.tolist(), c.tolist()) == ([1.0, 2.0], [2.0, 3.0])
    w.grad = None
    same = w.realize().contiguous()
    (w * 2 + same * 3).sum().backward()
    assert (listed(w.grad), listed(same.grad)) == ([5.0, 5.0], None)


@pytest.mark.parametrize("make", [lambda w: w.contiguous(), copy.copy, lambda w: w.float(), lambda w: +w])
def test_a_value_of_what_was_overwritten_is_written_in_no_grad(make: Any) -> None:
    """It has its memory from a tensor that was written since."""
    w = Tensor([1.0, 2.0, 3.0]).realize()
    c = make(w)
    w += 1
    w.realize()
    with Tensor.no_grad():
        c += 1
    assert (c.tolist(), w.tolist()) == ([2.0, 3.0, 4.0], [2.0, 3.0, 4.0])


@pytest.mark.parametrize("read", [False, True])
def test_a_seed_changes_nothing_that_was_drawn(read: bool) -> None:
    """Neither lazy draws, nor the mask that a gradient needs again."""
    Tensor.manual_seed(1)
    Tensor.rand(1).realize()
    w = Tensor([1.0] * 8, requires_grad=True).realize()
    with Tensor.train():
        loss = (w.dropout(0.5) * Tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])).sum()
    lazy = Tensor.rand(2, contiguous=False)
    first = (lazy * 1).realize()
    if read:
        loss.realize()
    Tensor.manual_seed(7)
    loss.backward()
    assert loss.item() == w.grad.sum().item()
    assert lazy.tolist() == first.tolist()
    Tensor.manual_seed(7)
    again = Tensor.rand(3).tolist()
    Tensor.manual_seed(7)
    assert Tensor.rand(3).tolist() == again


def test_a_seed_is_set_though_a_device_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its numbers begin anew when it is back; those of other devices do at once."""
    from tinygraft.tensor.ops import random

    monkeypatch.setitem(random._states, "NOSUCH", SimpleNamespace(device="NOSUCH"))
    Tensor.manual_seed(3)
    first = Tensor.rand(2).tolist()
    assert "NOSUCH" not in random._states
    Tensor.manual_seed(3)
    assert Tensor.rand(2).tolist() == first
