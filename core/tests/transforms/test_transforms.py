"""grad, vjp, jvp, jacobian, hessian, vmap and checkpoint: against finite differences, each other and PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from tinygraft import (
    Context,
    Device,
    Tensor,
    TinyJit,
    checkpoint,
    dtypes,
    grad,
    hessian,
    jacobian,
    jvp,
    value_and_grad,
    vjp,
    vmap,
)
from tinygraft.device.pool import pool_of
from tinygraft.errors import DTypeError, GraphError, ShapeError
from tinygraft.functions import Function

rng = np.random.default_rng(7)
X = rng.normal(size=(4, 3))
W = rng.normal(size=(3, 5))


def curve(x: Tensor) -> Tensor:
    """Something with products, a scan, a maximum and a softmax, of x's shape."""
    return (x.sin() * x.exp()).cumsum(-1).maximum(0.1) * x.softmax(-1)


def differences(function: Any, x: np.ndarray[Any, Any], step: float = 1e-6) -> np.ndarray[Any, Any]:
    """The Jacobian of function by central differences in float64."""
    columns = []
    for at in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[at] += step
        down[at] -= step
        columns.append((function(Tensor(up)).numpy() - function(Tensor(down)).numpy()) / (2 * step))
    return np.moveaxis(np.stack(columns), 0, -1).reshape(*columns[0].shape, *x.shape)


def assert_close(found: Tensor, wanted: Any, tolerance: float = 1e-6) -> None:
    """Equal within a tolerance, and in shape."""
    values = found.numpy()
    assert values.shape == np.shape(wanted)
    np.testing.assert_allclose(values, wanted, rtol=tolerance, atol=tolerance)


def test_jacobian_by_rows_and_by_columns() -> None:
    """Fewer results than arguments and the other way round: each way gives what differences say."""
    x = X[0]
    assert_close(jacobian(curve)(Tensor(x)), differences(curve, x))
    for function in (lambda x: curve(x).sum(-1), lambda x: x.reshape(3, 1).expand(3, 4).sin() * 2):
        assert_close(jacobian(function)(Tensor(X[0])), differences(function, X[0]))


def test_jvp_is_the_jacobian_times_a_tangent() -> None:
    """And vjp is a gradient times the Jacobian."""
    tangent, rows = rng.normal(size=X.shape), differences(curve, X)
    value, change = jvp(curve, (Tensor(X),), (Tensor(tangent),))
    assert_close(value, curve(Tensor(X)).numpy())
    assert_close(change, np.tensordot(rows, tangent, 2))
    value, back = vjp(curve, Tensor(X))
    assert_close(value, curve(Tensor(X)).numpy())
    assert_close(back(Tensor(tangent))[0], np.tensordot(tangent, rows, 2))


def test_jvp_of_what_does_not_depend_on_its_argument() -> None:
    """The change is 0, in the shape of the result."""
    other = Tensor(X)
    assert jvp(lambda x: other, (Tensor([1.0]),), (Tensor([1.0]),))[1].numpy().tolist() == np.zeros_like(X).tolist()
    assert jvp(lambda x: x.detach(), (Tensor([2.0]),), (Tensor([1.0]),))[1].tolist() == [0.0]


def test_hessian_and_third_derivatives() -> None:
    """A derivative can be taken again and again."""
    x = X[0]
    assert_close(hessian(lambda x: curve(x).sum())(Tensor(x)), differences(grad(lambda x: curve(x).sum()), x), 1e-5)
    third = jacobian(hessian(lambda x: (x**4).sum()))(Tensor(x))
    wanted = np.zeros((3, 3, 3))
    wanted[range(3), range(3), range(3)] = 24 * x
    assert_close(third, wanted)


def test_nested_arguments_and_results() -> None:
    """A dict of parameters in gives a dict of gradients, several argnums a tuple, and results keep their nesting."""
    p = {"w": Tensor(W), "b": Tensor(np.ones(5)), "name": "layer"}

    def loss(x: Tensor, p: dict[str, Any]) -> Tensor:
        return ((x @ p["w"] + p["b"]) ** 2).mean()

    value, (gx, gp) = value_and_grad(loss, (0, 1))(Tensor(X), p)
    x = Tensor(X, requires_grad=True)
    params = {**p, "w": Tensor(W, requires_grad=True), "b": Tensor(np.ones(5), requires_grad=True)}
    loss(x, params).backward()
    assert_close(value, loss(Tensor(X), p).numpy())
    assert x.grad is not None
    assert_close(gx, x.grad.numpy())
    assert gp["name"] == "layer"
    for name in "wb":
        assert_close(gp[name], params[name].grad.numpy())
    rows = jacobian(lambda p: [p["w"].sum(0), (p["b"] * 2,)])(p)
    assert_close(rows[1][0]["b"], np.eye(5) * 2)
    assert_close(rows[0]["w"], np.einsum("ij,k->ikj", np.eye(5), np.ones(3)))
    pairs = hessian(lambda p: (p["w"].sum(0) * p["b"]).sum())(p)
    assert_close(pairs["b"]["w"], np.einsum("ij,k->ikj", np.eye(5), np.ones(3)))
    assert_close(pairs["b"]["b"], np.zeros((5, 5)))


def test_one_tensor_given_twice_has_the_sum() -> None:
    """As two names of one value."""
    x = Tensor([3.0])
    first, second = grad(lambda a, b: (a * a * b).sum(), (0, 1))(x, x)
    assert (first.tolist(), second.tolist()) == ([27.0], [27.0])


def test_aux_comes_with_the_gradient() -> None:
    """And may hold tensors that depend on the argument."""
    found, aux = grad(lambda x: ((x * x).sum(), {"double": x * 2, "n": 3}), has_aux=True)(Tensor([1.0, 2.0]))
    assert (found.tolist(), aux["double"].tolist(), aux["n"]) == ([2.0, 4.0], [2.0, 4.0], 3)


def test_gradients_go_through_transformed_functions() -> None:
    """A tensor with requires_grad that a function reads has its gradient behind grad, vmap and jacobian."""
    w, x = Tensor(W[:, 0], requires_grad=True), X[0]
    penalty = (grad(lambda x: (x * x * w).sum())(Tensor(x)) ** 2).sum()
    assert_close(penalty.gradient(w)[0], 8 * x**2 * W[:, 0])
    rows = vmap(lambda x: (x * w).sum())(Tensor(X))
    assert rows.requires_grad
    assert_close((rows * rows).sum().gradient(w)[0], 2 * X.T @ (X @ W[:, 0]))
    assert_close(jacobian(lambda x: x * w)(Tensor(x)).sum().gradient(w)[0], np.ones(3))


class Point(NamedTuple):
    """A container of one's own."""

    x: Any
    y: Any


def test_vmap_over_any_axis_in_and_out() -> None:
    """in_axes for each argument, None for what all examples share, out_axes for each result."""
    a, b = rng.normal(size=(3, 6, 4)), rng.normal(size=(4, 2))
    wanted = np.einsum("ikj,jl->kil", a, b)
    for place in (0, 1, 2, -1):
        found = vmap(lambda a, b: a @ b, in_axes=(1, None), out_axes=place)(Tensor(a), Tensor(b))
        assert_close(found, np.moveaxis(wanted, 0, place))
    k = rng.normal(size=(4, 3))
    both = vmap(lambda p, k: Point(p["a"] * k, [p["b"]]), in_axes=({"a": 0, "b": None}, -1), out_axes=Point(1, None))
    point = both({"a": Tensor(a), "b": Tensor(b)}, Tensor(k))
    assert isinstance(point, Point)
    assert_close(point.x, np.moveaxis(a * k.T[:, None, :], 0, 1))
    assert_close(point.y[0], b)


def test_vmap_of_keywords_numbers_and_constants() -> None:
    """Tensors by keyword have examples in front, numbers are for all, a result without examples is repeated."""
    found, same = vmap(lambda x, *, k, n: (x * k + n, Tensor([1.0, 2.0])))(Tensor(X), k=Tensor(X[:, 0]), n=3)
    assert_close(found, X * X[:, :1] + 3)
    assert_close(same, [[1.0, 2.0]] * 4)
    assert vmap(lambda x: x.sum())(Tensor.zeros(0, 3)).tolist() == []


def test_vmap_refuses_to_leave_an_example_outside() -> None:
    """A tensor from outside that is assigned an example is an error and keeps its value; examples may be written to."""
    total, shared = Tensor.zeros(2).contiguous(), Tensor.ones(2)

    def adds(row: Tensor) -> Tensor:
        return total.assign(total + row)

    def writes(row: Tensor) -> Tensor:
        row[0] = 9.0
        return row * shared.assign(shared * 2)

    rows = Tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(
        GraphError,
        match=r"^a tensor of shape \(2,\) from outside was assigned a value that depends on one example of vmap\n"
        r"  made at .*test_transforms\.py:\d+\n"
        r"  hint: return that value from the function, and assign the whole outside$",
    ):
        vmap(adds)(rows)
    assert total.tolist() == [0.0, 0.0]
    assert vmap(writes)(rows).tolist() == [[18.0, 4.0], [18.0, 8.0]]
    assert (rows.tolist(), shared.tolist()) == ([[1.0, 2.0], [3.0, 4.0]], [2.0, 2.0])


def test_vmap_nests_and_indexes() -> None:
    """A matrix product by two vmaps; each example looks at places of its own, writes there and sorts."""
    dot = vmap(vmap(lambda a, b: (a * b).sum(), (0, None)), (None, 0), out_axes=1)
    assert_close(dot(Tensor(X), Tensor(X)), X @ X.T)
    table, places = rng.normal(size=(4, 6)), rng.integers(0, 6, (4, 3))
    assert_close(vmap(lambda t, i: t[i])(Tensor(table), Tensor(places)), np.take_along_axis(table, places, 1))
    assert_close(vmap(lambda t: t.sort(descending=True)[0])(Tensor(table)), -np.sort(-table, 1))

    def write(t: Tensor, i: Tensor) -> Tensor:
        new = t.clone()
        new[i] = 9.0
        return new

    wanted = table.copy()
    np.put_along_axis(wanted, places, 9.0, 1)
    assert_close(vmap(write)(Tensor(table), Tensor(places)), wanted)


def test_gradients_of_each_example() -> None:
    """vmap of grad: one gradient for each example, and their sum is that of the sum."""

    def loss(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return (x @ w).reshape(1, -1).sparse_categorical_crossentropy(y.reshape(1))

    x, y = Tensor(X), Tensor(np.arange(4) % 5)
    each = vmap(grad(loss), (None, 0, 0))(Tensor(W), x, y)
    assert each.shape == (4, 3, 5)
    w = Tensor(W)
    total = (x @ w).sparse_categorical_crossentropy(y, reduction="sum").gradient(w)[0]
    assert_close(each.sum(0), total.numpy())


def test_functions_with_their_own_gradient() -> None:
    """Their backward is used by grad, under vmap and in a Jacobian; jvp needs it to be linear."""

    class Doubled(Function):
        """x * w, whose gradient is said to be twice what it is."""

        def forward(self, x: Tensor, w: Tensor) -> Tensor:
            self.x, self.w = x, w
            return x * w

        def backward(self, gradient: Tensor) -> Any:
            return gradient * self.w * 2, (gradient * self.x * 2)

    class Crooked(Function):
        """A backward that is not linear."""

        def forward(self, x: Tensor) -> Tensor:
            return x

        def backward(self, gradient: Tensor) -> Any:
            return gradient * gradient

    w = Tensor(W[:, 0])
    assert_close(grad(lambda x: Doubled.apply(x, w).sum())(Tensor(X[0])), 2 * W[:, 0])
    assert_close(vmap(grad(lambda x: Doubled.apply(x, w).sum()))(Tensor(X)), np.tile(2 * W[:, 0], (4, 1)))
    assert_close(jacobian(lambda x: Doubled.apply(x, w))(Tensor(X[0])), np.diag(2 * W[:, 0]))
    summed = vmap(lambda x: Doubled.apply(x, w).sum())
    assert_close(grad(lambda w: vmap(lambda x: Doubled.apply(x, w).sum())(Tensor(X)).sum())(w), 2 * X.sum(0))
    assert_close(summed(Tensor(X)), X @ W[:, 0])
    with pytest.raises(GraphError, match=r"^the backward of a Function in <lambda> is not linear in the gradient"):
        jvp(lambda x: Crooked.apply(x), (Tensor([2.0]),), (Tensor([1.0]),))


def test_checkpoint_has_the_same_value_and_gradients() -> None:
    """For arguments, keywords and weights that the function reads; under grad, vmap and in second derivatives too."""
    w = Tensor(W, requires_grad=True)

    def block(x: Tensor, *, scale: Tensor) -> Tensor:
        return ((x @ w).relu() @ w.T * scale).sin()

    x, scale = Tensor(X, requires_grad=True), Tensor(X[0], requires_grad=True)
    plain, again = block(x, scale=scale), checkpoint(block)(x, scale=scale)
    assert_close(again, plain.numpy())
    for found, wanted in zip(again.sum().gradient(x, scale, w), plain.sum().gradient(x, scale, w), strict=True):
        assert_close(found, wanted.numpy())
    again.sum().backward()
    assert w.grad is not None
    assert_close(w.grad, plain.sum().gradient(w)[0].numpy())
    s = Tensor(X[0])
    assert_close(
        grad(lambda x: checkpoint(block)(x, scale=s).sum())(x), grad(lambda x: block(x, scale=s).sum())(x).numpy()
    )
    row = Tensor(X[0])
    second = hessian(lambda x: checkpoint(block)(x.reshape(1, 3), scale=s).sum())(row)
    assert_close(second, hessian(lambda x: block(x.reshape(1, 3), scale=s).sum())(row).numpy())
    each = vmap(grad(lambda x: checkpoint(block)(x.reshape(1, 3), scale=s).sum()))(Tensor(X))
    assert_close(each, grad(lambda x: block(x, scale=s).sum())(Tensor(X)).numpy())


def test_checkpoint_keeps_only_what_goes_into_blocks() -> None:
    """In use is what one block needs and the inputs of all; without checkpoint it grows by what they compute."""

    def most(blocks: int, wrap: Callable[[Any], Any]) -> int:
        weights = [tuple(Tensor(rng.normal(size=shape)) for shape in ((8, 64), (64, 8))) for _ in range(blocks)]
        block = wrap(lambda x, a, b: x + (x @ a).relu().sin().relu() @ b)
        x = Tensor(rng.normal(size=(32, 8)))
        for a, b in weights:
            x = block(x, a, b)
        gradients = x.square().mean().gradient(*(w for pair in weights for w in pair))
        pool = pool_of(Device[Device.DEFAULT])
        pool.empty()
        start, pool.peak = pool.used, pool.used
        Tensor.realize(*gradients)
        return pool.peak - start - sum(g.nbytes() for g in gradients)

    with Context(DEV="PYTHON"):
        assert most(6, checkpoint) - most(3, checkpoint) == 3 * 32 * 8 * 8
        assert most(6, lambda f: f) - most(3, lambda f: f) > 3 * 32 * 64 * 8


def test_under_tinyjit() -> None:
    """A transformed function is captured and replayed like any other."""
    step = TinyJit(lambda x: vmap(grad(lambda x: curve(x).sum()))(x).realize())
    for scale in (1.0, 2.0, 3.0, 4.0):
        x = Tensor(X * scale)
        assert_close(step(x), grad(lambda x: curve(x).sum())(x).numpy())


def test_values_are_not_known_inside() -> None:
    """Asking for one says who put the tensor there, and what to do instead."""
    message = (
        r"^a tensor of shape \(3,\) has no value inside vmap: the function is called once, to make a graph of it\n"
        r"  hint: choose with where\(\) what depends on a value; item\(\), numpy\(\) and if need to know it$"
    )
    with pytest.raises(GraphError, match=message):
        vmap(lambda x: x if x.sum().item() > 0 else -x)(Tensor(X))


def test_what_is_left_of_an_example_does_not_refuse_writes() -> None:
    """A tensor made inside and still live reads memory that is written later: it cannot be computed before."""
    weight, left = Tensor([1.0, 2.0]).realize(), []

    def double(x: Tensor) -> Tensor:
        left.append(x * weight)
        return left[-1] * 2

    found = vmap(double)(Tensor([[1.0, 1.0], [3.0, 3.0]])).realize()
    weight.assign(weight + 1).realize()
    assert weight.tolist() == [2.0, 3.0]
    assert found.tolist() == [[2.0, 4.0], [6.0, 12.0]]
    with pytest.raises(GraphError, match="has no value inside vmap"):
        left[0].tolist()


def test_values_are_known_inside_grad() -> None:
    """A function may look at values on the way, and its gradient does not stop there."""

    def branch(x: Tensor) -> Tensor:
        y = (x * x).realize()
        return (y * x).sum() if y.sum().item() > 4 else y.sum()

    assert grad(branch)(Tensor([1.0, 2.0])).tolist() == [3.0, 12.0]
    assert grad(branch)(Tensor([1.0, 1.0])).tolist() == [2.0, 2.0]
    running = Tensor([0.0])
    value, found = value_and_grad(lambda x: [running.assign(running + x.sum()), (x * x).sum()][1])(Tensor([3.0]))
    assert (value.item(), found.tolist(), running.tolist()) == (9.0, [6.0], [3.0])
    assert value.requires_grad is None


def test_what_cannot_be_transformed() -> None:
    """Each mistake has its sentence."""
    x, whole = Tensor(X), Tensor([1, 2])
    with pytest.raises(ShapeError, match=r"^grad needs a function that gives a tensor of one float, curve gave shape "
                                         r"\(4, 3\) and dtypes.double\n  hint: reduce it first, as in .sum\(\); the "
                                         r"derivative of several values is jacobian\(curve\)$"):  # fmt: skip
        grad(curve)(x)
    with pytest.raises(IndexError, match=r"^grad got argnums 1, for a call with 1 positional arguments$"):
        grad(curve, 1)(x)
    with pytest.raises(DTypeError, match=r"^jacobian differentiates floats, an argument of <lambda> is dtypes.int\n"):
        jacobian(lambda x: x * 1.0)(whole)
    with pytest.raises(DTypeError, match=r"^with has_aux <lambda> must give a pair \(value, anything else\)$"):
        grad(lambda x: x.sum(), has_aux=True)(x)
    with pytest.raises(ShapeError, match=r"^jvp needs tensors of shapes \[\(4, 3\)\], got \[\(3,\)\]"):
        jvp(curve, (x,), (Tensor(X[0]),))
    with pytest.raises(ShapeError, match=r"^vmap needs as many examples of each argument, got 4 of shape \(4, 3\) and "
                                         r"3 of shape \(3, 5\)\n  made at "):  # fmt: skip
        vmap(lambda a, b: a.sum() + b.sum())(x, Tensor(W))
    with pytest.raises(ShapeError, match=r"^vmap cannot go over axis 2 of a tensor of shape \(4, 3\)\n  made at "):
        vmap(curve, in_axes=2)(x)
    with pytest.raises(ShapeError, match=r"^vmap has nothing to go over: no tensor among the arguments has an axis"):
        vmap(curve, in_axes=None)(x)
    with pytest.raises(ShapeError, match=r"^in_axes \(0, 0\) has 2 entries, for 1 values$"):
        vmap(curve, in_axes=(0, 0))(x)
    with pytest.raises(ShapeError, match=r"^in_axes has the keys \['b'\], for a dict with the keys \['a'\]$"):
        vmap(lambda p: p["a"], in_axes=({"b": 0},))({"a": x})
    with pytest.raises(ShapeError, match=r"^in_axes of a tensor is a number or None, got \[0, 1\]$"):
        vmap(curve, in_axes=([0, 1],))(x)
    with pytest.raises(
        ShapeError, match=r"^out_axes is None for a result of shape \(3,\) that is another one for each"
    ):
        vmap(curve, out_axes=None)(x)
    with pytest.raises(ShapeError, match=r"^out_axes is 2, for a result of shape \(3,\) and one more axis$"):
        vmap(curve, out_axes=2)(x)


def test_half_types() -> None:
    """Derivatives keep the dtype of the argument."""
    x = Tensor(X[0], dtype=dtypes.half)
    assert jacobian(lambda x: x * x)(x).dtype is dtypes.half
    assert jvp(lambda x: x.float() * 2, (x,), (x,))[1].dtype is dtypes.float


@pytest.mark.parametrize("realized", [True, False])
def test_checkpoint_writes_what_the_function_writes_to_its_arguments(realized: bool) -> None:
    """In whole and in part, also where writes wait; views follow, and gradients are those of the plain function."""

    def step(x: Tensor, cache: Tensor) -> Tensor:
        cache[1:3] = (x * x).detach()[:2]
        cache.reshape(2, 2)[1] += 10
        x[0] = x[1] * 3
        return (x * cache[:3]).sum()

    found = []
    for run in (step, checkpoint(step)):
        w, cache = Tensor([1.0, 2.0, 3.0], requires_grad=True), Tensor([5.0, 6.0, 7.0, 8.0])
        if realized:
            cache.realize()
        view, x = cache[1:], w * 2
        view += 1
        y = run(x, cache)
        (y + x.sum()).backward()
        assert w.grad is not None
        found.append([t.tolist() for t in (y, w.grad, cache, view, x)])
    assert found[0] == found[1]
    assert found[0][2:] == [[5.0, 4.0, 26.0, 19.0], [4.0, 26.0, 19.0], [12.0, 4.0, 6.0]]


def test_an_assignment_that_vmap_refuses_leaves_views_whole() -> None:
    """The tensor, its views, and what is written through them later."""
    t = Tensor([1.0, 2.0]).realize()
    view = t[:1]
    with pytest.raises(GraphError, match="from outside was assigned a value"):
        vmap(lambda row: t.assign(t + row))(Tensor([[1.0, 2.0], [3.0, 4.0]]))
    view += 1
    assert (t.tolist(), view.tolist()) == ([2.0, 2.0], [2.0])


def _part(x: Tensor) -> Tensor:
    x[0] = x[1] * 3
    return (x * x).sum()


def _between(x: Tensor) -> Tensor:
    y = x * x
    x[0].item()
    x *= 2
    x.realize()
    return (x * y).sum()


def _views(x: Tensor) -> Tensor:
    x.assign(x * 2)
    x[0] = 5.0
    v = x[1:]
    v *= 3
    return (x * x).sum()


@pytest.mark.parametrize("requires_grad", [None, True])
@pytest.mark.parametrize(("function", "value", "slope", "bend"), [
    (_part, 40.0, [0.0, 40.0], [[0.0, 0.0], [0.0, 20.0]]),
    (_between, 18.0, [6.0, 24.0], [[12.0, 0.0], [0.0, 24.0]]),
    (_views, 169.0, [0.0, 144.0], [[0.0, 0.0], [0.0, 72.0]]),
])  # fmt: skip
def test_what_a_function_writes_to_its_argument(function, value, slope, bend, requires_grad) -> None:
    """Derivatives are by the value that came in, and the argument keeps it."""
    x = Tensor([1.0, 2.0], requires_grad=requires_grad)
    assert grad(function)(x).tolist() == slope
    found, back = vjp(function, x)
    assert (found.item(), back(Tensor(1.0))[0].tolist()) == (value, slope)
    assert [t.item() for t in jvp(function, (x,), (Tensor([0.0, 1.0]),))] == [value, slope[1]]
    assert jacobian(function)(x).tolist() == slope
    assert hessian(function)(x).tolist() == bend
    assert x.tolist() == [1.0, 2.0]
