"""Function and function: derivatives of one's own, in graphs, under TinyJit, twice, and their errors."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from tinygraft import GlobalCounters, Tensor, TinyJit, dtypes
from tinygraft.errors import DTypeError, GraphError, ShapeError, UnsupportedError
from tinygraft.functions import Function, function


class Cube(Function):
    """x**3, by what forward saved."""

    def forward(self, x: Tensor) -> Tensor:
        """The cubes."""
        self.x = x
        return x * x * x

    def backward(self, gradient: Tensor) -> Tensor:
        """3 x**2."""
        return gradient * 3 * self.x * self.x


class Round(Function):
    """Rounding that passes gradients through as if it did nothing."""

    def forward(self, x: Tensor) -> Tensor:
        """The nearest integers."""
        return x.round()

    def backward(self, gradient: Tensor) -> Tensor:
        """The gradient."""
        return gradient


class Exponential(Function):
    """e**x, whose backward uses the saved result."""

    def forward(self, x: Tensor) -> Tensor:
        """The exponentials."""
        self.result = x.exp()
        return self.result

    def backward(self, gradient: Tensor) -> Tensor:
        """e**x again."""
        return gradient * self.result


class Scaled(Function):
    """x * y * by, noting what is needed."""

    needed: list[bool]

    def forward(self, x: Tensor, y: Tensor, by: float = 1.0) -> Tensor:
        """The products."""
        self.x, self.y, self.by = x, y, by
        Scaled.needed = list(self.needs_input_grad)
        return x * y * by

    def backward(self, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """The other factor, where it is needed."""
        Scaled.needed = list(self.needs_input_grad)
        left = gradient * self.y * self.by if self.needs_input_grad[0] else None
        return left, gradient * self.x * self.by if self.needs_input_grad[1] else None


class Halves(Function):
    """The two halves of a vector, as two results."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Front and back."""
        self.half = x.shape[0] // 2
        return x[: self.half], x[self.half :]

    def backward(self, front: Tensor, back: Tensor) -> Tensor:
        """Both, joined."""
        return front.cat(back)


def test_the_gradient_is_what_backward_says() -> None:
    """A straight-through rounding has the gradient 1 where the rounding itself has none."""
    x = Tensor([0.4, 1.6], requires_grad=True)
    y = Round.apply(x)
    assert y.tolist() == [0.0, 2.0]
    (y * Tensor([2.0, 3.0])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 3.0]


def test_a_gradient_survives_realising() -> None:
    """A result that was read or realised still goes back through backward, also between two functions."""
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = Round.apply(x * 1.6).realize()
    assert y.tolist() == [2.0, 3.0]
    z = (Cube.apply(y) * 2).realize()
    z.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), 1.6 * 6 * np.array([4.0, 9.0]), rtol=1e-6)


def test_several_inputs_and_keywords() -> None:
    """Each input gets its gradient; keywords reach forward."""
    a, b = Tensor([2.0], requires_grad=True), Tensor([5.0], requires_grad=True)
    y = Scaled.apply(a, b, by=10.0)
    assert y.tolist() == [100.0]
    y.sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert (a.grad.tolist(), b.grad.tolist()) == ([50.0], [20.0])


def test_needs_input_grad_says_what_is_asked_for() -> None:
    """In forward by requires_grad, in backward by what the walk wants; False for what is no float or excluded."""
    a, b = Tensor([2.0]), Tensor([5.0], requires_grad=False)
    y = Scaled.apply(a, b)
    assert Scaled.needed == [True, False]
    assert y.gradient(a, gradient=Tensor([1.0]))[0].tolist() == [5.0]
    both = Scaled.apply(Tensor([1.0], requires_grad=True), a)
    both.gradient(a, gradient=Tensor([1.0]))
    assert Scaled.needed == [False, True]
    assert Scaled("PYTHON", Tensor([1]), Tensor([1.0])).needs_input_grad == [False, True]


@pytest.mark.parametrize(("flags", "result"), [((True, None), True), ((None, False), None), ((False, False), False)])
def test_requires_grad_of_a_result(flags: tuple[bool | None, bool | None], result: bool | None) -> None:
    """A result asks for a gradient if an input does, and never if none may have one."""
    a, b = (Tensor([1.0], requires_grad=flag) for flag in flags)
    assert Scaled.apply(a, b).requires_grad is result
    assert Scaled("PYTHON", a, b).requires_grad is result


def test_forward_gets_detached_tensors() -> None:
    """In forward no input asks for a gradient, and nothing flows back through what forward does."""
    seen: list[bool | None] = []

    class Doubled(Function):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(x.requires_grad)
            return x * 2

        def backward(self, gradient: Tensor) -> None:
            return None

    x = Tensor([1.0], requires_grad=True)
    y = Doubled.apply(x)
    assert seen == [False]
    (y + x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0]


def test_several_results() -> None:
    """A tuple of results: each has its gradient, alone or together."""
    x = Tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    front, back = Halves.apply(x)
    assert (front.tolist(), back.tolist()) == ([1.0, 2.0], [3.0, 4.0])
    assert back.gradient(x, gradient=Tensor([7.0, 8.0]))[0].tolist() == [0.0, 0.0, 7.0, 8.0]
    assert (front * 3 + back).gradient(x, gradient=Tensor([1.0, 10.0]))[0].tolist() == [3.0, 30.0, 1.0, 10.0]


@pytest.mark.parametrize("realised", [False, True])
def test_gradients_of_gradients(realised: bool) -> None:
    """Second and third derivatives follow from what backward is made of, saved inputs and results included."""
    x = Tensor([0.5, 2.0], requires_grad=True)
    for kind, wanted in [(Cube, [6 * np.array([0.5, 2.0]), 6 * np.ones(2)]), (Exponential, [np.exp([0.5, 2.0])] * 2)]:
        found = kind.apply(x)
        if realised:
            found.realize()
        found = found.gradient(x, gradient=Tensor([1.0, 1.0]))[0]
        for expected in wanted:
            found = found.sum().gradient(x)[0]
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_a_second_derivative_is_that_of_backward_not_of_forward() -> None:
    """The result that was saved is the function itself: e**round(x) keeps passing gradients through."""
    x = Tensor([0.6], requires_grad=True)

    class RoundedExponential(Function):
        def forward(self, x: Tensor) -> Tensor:
            self.result = x.round().exp()
            return self.result

        def backward(self, gradient: Tensor) -> Tensor:
            return gradient * self.result

    first = RoundedExponential.apply(x).sum().gradient(x)[0]
    np.testing.assert_allclose(first.sum().gradient(x)[0].numpy(), [np.e], rtol=1e-6)


def test_an_identity_counts_once() -> None:
    """A function that gives its input back has the gradient of its backward, and the derivative of that."""

    class Weighted(Function):
        def forward(self, x: Tensor) -> Tensor:
            self.x = x
            return x

        def backward(self, gradient: Tensor) -> Tensor:
            return gradient * self.x * self.x

    x = Tensor([3.0], requires_grad=True)
    first = Weighted.apply(x).sum().gradient(x)[0]
    assert (first.tolist(), first.sum().gradient(x)[0].tolist()) == ([9.0], [6.0])


def test_equal_values_of_two_functions_stay_apart() -> None:
    """Two functions whose forwards are one expression have their own gradients, also when both are realised."""

    class Tenfold(Function):
        def forward(self, x: Tensor) -> Tensor:
            return x.round()

        def backward(self, gradient: Tensor) -> Tensor:
            return gradient * 10

    x = Tensor([1.4], requires_grad=True)
    one, ten = Round.apply(x), Tenfold.apply(x)
    one.realize(ten)
    assert one.gradient(x, gradient=Tensor([1.0]))[0].tolist() == [1.0]
    assert ten.gradient(x, gradient=Tensor([1.0]))[0].tolist() == [10.0]
    one.assign(Tensor([5.0])).realize()
    assert (one.tolist(), ten.tolist()) == ([5.0], [1.0])


def test_a_function_fuses_with_what_is_around_it() -> None:
    """A function costs no kernel of its own: the chain is one, as without it."""
    x = Tensor([1.0, 2.0]).realize()
    y = (Cube.apply(x + 1) * 2 + 1).realize()
    assert y.tolist() == [17.0, 55.0]
    fresh = Cube.apply(Tensor([1.0, 2.0]).realize() + 3) * 5
    GlobalCounters.reset()
    fresh.realize()
    assert GlobalCounters.kernel_count == 1
    assert len((Cube.apply(x + 1) * 2).schedule()) == 1


def test_a_training_step_under_a_jit() -> None:
    """Forward, backward and update are captured and replayed with new inputs."""
    weight = Tensor([1.0, -1.0], requires_grad=True).realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        loss = Cube.apply(weight * x).sum()
        (slope,) = loss.gradient(weight)
        weight.assign((weight - slope * 0.01).detach())
        return loss.realize(weight)

    expected = np.array([1.0, -1.0])
    for turn in range(5):
        x = np.array([0.5 + turn, 1.0])
        loss = step(Tensor(x.astype(np.float32))).item()
        assert loss == pytest.approx(((expected * x) ** 3).sum(), rel=1e-4)
        expected = expected - 0.01 * 3 * (expected * x) ** 2 * x
        np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-4)
    assert step.captured == 1


def test_half_types_keep_their_gradient_dtype() -> None:
    """A gradient that backward computed wider becomes the input's dtype."""

    class Wide(Function):
        def forward(self, x: Tensor) -> Tensor:
            return x.float() * 2

        def backward(self, gradient: Tensor) -> Tensor:
            return gradient * 2

    x = Tensor([1.0, 2.0], dtype=dtypes.float16, requires_grad=True)
    Wide.apply(x).sum().backward()
    assert x.grad is not None
    assert (x.grad.dtype, x.grad.tolist()) == (dtypes.float16, [2.0, 2.0])


def test_a_graph_prints_the_function_by_its_name() -> None:
    """The node has the name of the class as its arg, and no address."""
    text = repr(Cube.apply(Tensor([1.0], requires_grad=True)).uop)
    assert text.startswith("UOp(Ops.FUNCTION, dtypes.float, arg=Cube, src=(")


def test_what_was_saved_goes_with_the_result() -> None:
    """When the result is gone, so is what forward kept: nothing outlives the graph."""
    kept: list[weakref.ref[Any]] = []

    class Noting(Cube):
        def forward(self, x: Tensor) -> Tensor:
            kept.append(weakref.ref(self))
            return super().forward(x)

    gc.disable()
    try:
        y = Noting.apply(Tensor([1.0], requires_grad=True))
        assert kept[0]() is not None
        del y
        assert kept[0]() is None
    finally:
        gc.enable()


def test_a_loop_of_realised_functions_does_not_grow() -> None:
    """A state that goes through a function and is realised in each turn keeps the node count level."""
    from tinygraft.uop.uop import live_nodes

    state = Tensor([1.0, 2.0], requires_grad=False)
    counts = []
    for _ in range(40):
        state = Round.apply(Cube.apply(state)).clip(1, 2).realize()
        counts.append(live_nodes())
    assert counts[-1] <= counts[10] + 5


def test_what_is_not_kept_is_not_computed() -> None:
    """A step that overwrites a weight stores nothing for a function that kept nothing of it."""
    weight = Tensor([1.0, 2.0, 3.0], requires_grad=True).realize()
    kernels = []
    for kind in (lambda x: x.round(), Round.apply):
        loss = kind(weight * 1.5).sum().realize()
        GlobalCounters.reset()
        weight.assign((weight * 2).detach()).realize()
        kernels.append((GlobalCounters.kernel_count, GlobalCounters.global_mem))
        assert loss.shape == ()
    assert kernels[0] == kernels[1]


# Errors


def test_apply_takes_tensors() -> None:
    """Another argument than a tensor by place is refused, with what to do."""
    with pytest.raises(DTypeError, match=r"^Scaled.apply takes tensors, argument 1 is float\n  hint: give other "):
        Scaled.apply(Tensor([1.0]), 2.0)


def test_forward_gives_tensors() -> None:
    """A forward that gives something else is named."""

    class Number(Function):
        def forward(self, x: Tensor) -> int:
            return 3

    with pytest.raises(DTypeError, match=r"^forward of Number must give a tensor or a tuple of them, it gave int$"):
        Number.apply(Tensor([1.0]))


def test_what_a_function_does_not_write_is_named() -> None:
    """Without forward nothing can be applied; without backward nothing can be differentiated."""

    class Forward(Function):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    with pytest.raises(UnsupportedError, match=r"^Function has no forward; write def forward\(self, x, \.\.\.\): "):
        Function.apply(Tensor([1.0]))
    x = Tensor([1.0], requires_grad=True)
    y = Forward.apply(x)
    assert y.tolist() == [2.0]
    message = r"^Forward has no backward, and its gradient is needed; write def backward\(self, gradient\)"
    with pytest.raises(UnsupportedError, match=message):
        y.sum().backward()


@pytest.mark.parametrize(
    ("result", "kind", "message"),
    [
        ((None, None), ValueError, "^backward of Wrong must give one gradient for each of its 1 inputs, it gave 2$"),
        (Tensor([1.0, 2.0, 3.0]), ShapeError,
         r"^backward of Wrong gave input 1, which has shape \(2,\), a gradient of shape \(3,\)\n  made at .*:\d+$"),
        (1.0, DTypeError, "^backward of Wrong must give tensors or None, input 1 got float$"),
    ],
    ids=["count", "shape", "type"],
)  # fmt: skip
def test_a_backward_that_cannot_be_is_named(result: object, kind: type[Exception], message: str) -> None:
    """A wrong number, shape or type of gradients is refused, where the tensor was made where possible."""

    class Wrong(Function):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1

        def backward(self, gradient: Tensor) -> Any:
            return result

    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(kind, match=message):
        Wrong.apply(x).sum().backward()


# The decorator


def test_function_gives_a_derivative() -> None:
    """grad_fxn gets the gradient and the tensors; other arguments go to the function."""

    @function(grad_fxn=lambda gradient, x, y: (gradient * y * 100, None))
    def scaled(x: Tensor, by: float, y: Tensor) -> Tensor:
        return x * y * by

    a, b = Tensor([2.0], requires_grad=True), Tensor([3.0], requires_grad=True)
    out = scaled(a, 10.0, b)
    assert out.tolist() == [60.0]
    first, second = out.sum().gradient(a, b)
    assert (first.tolist(), second.tolist()) == ([300.0], [0.0])
    assert scaled.__name__ == "scaled"


def test_function_without_a_derivative_is_the_function() -> None:
    """A plain function is differentiated as it is, with or without parentheses."""

    @function
    def squared(x: Tensor) -> Tensor:
        return x * x

    @function()
    def doubled(x: Tensor) -> Tensor:
        return x * 2

    x = Tensor([3.0], requires_grad=True)
    assert doubled(squared(x)).sum().gradient(x)[0].tolist() == [12.0]


def test_function_refuses_implicit_memory() -> None:
    """With allow_implicit=False memory from outside is refused; what is made inside, or passed, is not."""
    outside = Tensor([1.0, 2.0])

    @function(allow_implicit=False)
    def closed(x: Tensor, *others: Tensor) -> Tensor:
        return sum(others, x + Tensor([5.0, 6.0]))

    @function(allow_implicit=False)
    def open_(x: Tensor) -> Tensor:
        return x + outside

    assert closed(Tensor([1.0, 1.0]), outside + 1).tolist() == [8.0, 10.0]
    with pytest.raises(GraphError, match=r"^open_ reads a tensor of 2 dtypes.float that is no argument of it\n  hint"):
        open_(Tensor([1.0, 1.0]))
