"""The page "mlops": every class that it names, with its signatures, its attributes, its value and its gradient.

mlops.txt holds what the page states. The page shows no output: values are compared with numpy, gradients with finite
differences in float64. Its buffers are tensors here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, dtypes, mlops
from tinygraft.functions import Function

PAGE = (Path(__file__).parent / "mlops.txt").read_text(encoding="utf-8").partition("%% classes\n")[2]
ROW = re.compile(r"(\w+) +forward (\?|\(.*?\)) +backward (\?|\(.*?\)) +attributes ?(.*)")
CLASSES = {row[0]: row[1:] for row in ROW.findall(PAGE)}

Array = np.ndarray[Any, Any]


@dataclass
class Case:
    """One class: the inputs of a call and its other arguments, and the value as numpy gives it."""

    value: Callable[..., Any]
    inputs: tuple[Array, ...]
    given: dict[str, Any] = field(default_factory=dict)


A = np.array([[0.5, 1.5, -2.0], [3.0, -0.25, 0.75]])
B = np.array([[2.0, -0.5, 1.25], [0.5, 4.0, -3.0]])
POSITIVE = np.array([[0.5, 1.5, 2.0], [3.0, 0.25, 0.75]])
CASES = {
    "Add": Case(np.add, (A, B)),
    "Cast": Case(lambda a: a.astype(np.float64), (A,), {"dtype": dtypes.float64}),
    "Contiguous": Case(np.copy, (A,)),
    "ContiguousBackward": Case(np.copy, (A,)),
    "Div": Case(np.divide, (A, B)),
    "Exp": Case(np.exp, (A,)),
    "Expand": Case(lambda a: np.broadcast_to(a, (4, 2, 3)), (A[None],), {"shape": (4, 2, 3)}),
    "Flip": Case(lambda a: np.flip(a, 1), (A,), {"axis": (1,)}),
    "Log": Case(np.log, (POSITIVE,)),
    "Max": Case(lambda a: a.max(1, keepdims=True), (A,), {"new_shape": (2, 1)}),
    "Mul": Case(np.multiply, (A, B)),
    "Neg": Case(np.negative, (A,)),
    "Pad": Case(lambda a: np.pad(a, ((1, 0), (2, 3))), (A,), {"arg": ((1, 0), (2, 3))}),
    "Permute": Case(lambda a: a.transpose(1, 0), (A,), {"order": (1, 0)}),
    "Relu": Case(lambda a: np.maximum(a, 0), (A,)),
    "Reshape": Case(lambda a: a.reshape(3, 2), (A,), {"shape": (3, 2)}),
    "Shrink": Case(lambda a: a[0:1, 1:3], (A,), {"arg": ((0, 1), (1, 3))}),
    "Sigmoid": Case(lambda a: 1 / (1 + np.exp(-a)), (A,)),
    "Sin": Case(np.sin, (A,)),
    "Sqrt": Case(np.sqrt, (POSITIVE,)),
    "Sub": Case(np.subtract, (A, B)),
    "Sum": Case(lambda a: a.sum(0, keepdims=True), (A,), {"new_shape": (1, 3)}),
    "Zero": Case(np.zeros_like, (A,)),
}


def apply(name: str, *inputs: Tensor, **given: Any) -> Tensor:
    """That class of mlops, applied."""
    result: Tensor = getattr(mlops, name).apply(*inputs, **given)
    return result


def tensors(case: Case, requires_grad: bool | None = True) -> list[Tensor]:
    """The inputs of a case."""
    return [Tensor(data, requires_grad=requires_grad) for data in case.inputs]


def slope(case: Case, place: int, seed: Array) -> Array:
    """The derivative of the sum of value * seed by one input, by finite differences."""
    found = np.zeros_like(case.inputs[place])
    for at in np.ndindex(*found.shape):
        sides = []
        for step in (1e-6, -1e-6):
            moved = [data.copy() for data in case.inputs]
            moved[place][at] += step
            sides.append((case.value(*moved) * seed).sum())
        found[at] = (sides[0] - sides[1]) / 2e-6
    return found


def test_all_classes_of_the_page_are_there() -> None:
    """The page names 25 classes, and mlops has these and their base, and no other."""
    assert len(CLASSES) == 25
    assert sorted(CLASSES) == sorted(set(mlops.__all__) - {"Function"})
    assert mlops.Function is Function
    assert sorted([*CASES, "Less", "Where"]) == sorted(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_the_signatures_of_the_page(name: str) -> None:
    """It is a Function made from a device and tensors, with the parameters that the page gives."""
    kind = getattr(mlops, name)
    assert issubclass(kind, Function)
    assert [p.name for p in inspect.signature(kind).parameters.values()] == ["device", "tensors"]
    for method, wanted in zip((kind.forward, kind.backward), CLASSES[name][:2], strict=True):
        ours = inspect.signature(method, eval_str=False)
        plain = ours.replace(
            parameters=[p.replace(annotation=p.empty) for p in list(ours.parameters.values())[1:]],
            return_annotation=ours.empty,
        )
        assert wanted in ("?", str(plain))


@pytest.mark.parametrize("name", CASES)
def test_a_class_has_its_value_and_attributes(name: str) -> None:
    """forward of an object gives numpy's value, and what the page calls its attributes are there after it."""
    case = CASES[name]
    inputs = tensors(case)
    made = getattr(mlops, name)(inputs[0].device, *inputs)
    np.testing.assert_allclose(made.forward(*inputs, **case.given).numpy(), case.value(*case.inputs), rtol=1e-12)
    for attribute in CLASSES[name][2].split():
        assert hasattr(made, attribute), attribute


@pytest.mark.parametrize("name", CASES)
def test_a_class_has_its_gradient(name: str) -> None:
    """The gradient of each input is what finite differences say, through apply and by backward of an object."""
    case = CASES[name]
    shape = np.shape(case.value(*case.inputs))
    seed = np.linspace(-1.0, 2.0, int(np.prod(shape))).reshape(shape)
    inputs = tensors(case)
    wanted = [slope(case, place, seed) for place in range(len(inputs))]
    found = apply(name, *inputs, **case.given).gradient(*inputs, gradient=Tensor(seed))
    for gradient, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-6, atol=1e-8)
    made = getattr(mlops, name)(inputs[0].device, *inputs)
    made.forward(*inputs, **case.given)
    direct = made.backward(Tensor(seed))
    for gradient, expected in zip(direct if isinstance(direct, tuple) else (direct,), wanted, strict=True):
        np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-6, atol=1e-8)


def test_less_compares_and_has_no_gradient() -> None:
    """Less is x < y as bool; backward gives None for both."""
    a, b = Tensor(A, requires_grad=True), Tensor(B, requires_grad=True)
    less = mlops.Less(a.device, a, b)
    assert less.forward(a, b).tolist() == (A < B).tolist()
    assert (less.x, less.y) == (a, b)
    assert less.backward(Tensor.ones(2, 3)) == (None, None)
    assert apply("Less", a, b).requires_grad is False


def test_where_chooses_and_sends_the_gradient_to_what_was_chosen() -> None:
    """The condition gets None, each of the two values its part of the gradient."""
    condition = Tensor([True, False, True])
    a, b = Tensor([1.0, 2.0, 3.0], requires_grad=True), Tensor([4.0, 5.0, 6.0], requires_grad=True)
    assert apply("Where", condition, a, b).tolist() == [1.0, 5.0, 3.0]
    where = mlops.Where(a.device, condition, a, b)
    where.forward(condition, a, b)
    none, left, right = where.backward(Tensor([1.0, 10.0, 100.0]))
    assert (none, left.tolist(), right.tolist()) == (None, [1.0, 0.0, 100.0], [0.0, 10.0, 0.0])


def test_an_input_that_needs_no_gradient_gets_none() -> None:
    """needs_input_grad follows requires_grad, and backward gives None where it is False."""
    a, b = Tensor(A), Tensor(B, requires_grad=False)
    mul = mlops.Mul(a.device, a, b)
    mul.forward(a, b)
    left, right = mul.backward(Tensor.ones(2, 3, dtype=dtypes.float64))
    assert (mul.needs_input_grad, left.tolist(), right) == ([True, False], B.tolist(), None)


def test_the_same_tensor_twice_counts_twice() -> None:
    """x * x and x * f(x) have their derivatives: each operand is its own, whatever it was computed from."""
    x = Tensor([3.0], requires_grad=True)
    assert apply("Mul", x, x).gradient(x, gradient=Tensor([1.0]))[0].tolist() == [6.0]
    assert apply("Mul", x, x * 2).gradient(x, gradient=Tensor([1.0]))[0].tolist() == [12.0]


def test_cast_takes_bits_back() -> None:
    """With bitcast, forward gives the bits as another dtype and backward turns a gradient's bits back."""
    cast = mlops.Cast("PYTHON", Tensor([1.0]))
    bits = cast.forward(Tensor([1.0]), dtypes.int32, bitcast=True)
    assert bits.tolist() == [0x3F800000]
    assert cast.backward(bits).tolist() == [1.0]


def test_classes_are_differentiated_twice_and_under_a_jit() -> None:
    """The second derivative of a sigmoid is s(1-s)(1-2s), also from a replay."""

    @TinyJit
    def second(x: Tensor) -> Tensor:
        first = apply("Sigmoid", x).sum().gradient(x)[0]
        return first.sum().gradient(x)[0].realize()

    for shift in range(4):
        x = Tensor(A + shift)
        s = 1 / (1 + np.exp(-(A + shift)))
        np.testing.assert_allclose(second(x).numpy(), s * (1 - s) * (1 - 2 * s), rtol=1e-9)
    assert second.captured == 1
