"""Derivatives of functions: grad, value_and_grad, vjp, jvp, jacobian and hessian.

All come from one table, that of `autograd/vjp.py`. A vector-Jacobian product is what a gradient is; it is linear in
the vector, so its own derivative by that vector is the Jacobian-vector product (the double-backward trick). A Jacobian
is one of these for all unit vectors at once, a batch in the graph (`autograd/batch.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tinygraft.autograd.batch import batched
from tinygraft.autograd.build import expand, full_like, iota, permute, reshape
from tinygraft.autograd.walk import gradient
from tinygraft.errors import DTypeError, GraphError, ShapeError
from tinygraft.helpers import prod
from tinygraft.tensor.nested import has_complex, mapped, tensors_in
from tinygraft.tensor.tensor import Tensor
from tinygraft.transforms.call import TransformCall, check_function
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, rebuild, substitute, toposort

TensorFunction = Callable[..., Any]
Argnums = int | Sequence[int]


def grad(function: TensorFunction, argnums: Argnums = 0, has_aux: bool = False) -> TensorFunction:
    """A function that returns the gradient of function with respect to its argument at index argnums, or to several.

    function returns a tensor of one float; with has_aux a pair of that and anything else, which is returned with the
    gradient. A write to an argument goes to a copy, and the gradient is taken at the value before the call.
    Raises ShapeError, DTypeError, IndexError.

    >>> from tinygraft import Tensor, grad
    >>> grad(lambda x: (x * x * x).sum())(Tensor([1.0, 2.0])).tolist()
    [3.0, 12.0]
    """
    both = value_and_grad(function, argnums, has_aux)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapped


def value_and_grad(function: TensorFunction, argnums: Argnums = 0, has_aux: bool = False) -> TensorFunction:
    """Like grad, for a pair of what function gives and its gradient.

    With has_aux function gives a pair (value, anything else), which is the first of the result: DTypeError for no pair.
    Raises as `grad`.

    >>> from tinygraft import Tensor, value_and_grad
    >>> value, gradient = value_and_grad(lambda x: (x * x).sum())(Tensor([1.0, 2.0]))
    >>> value.item(), gradient.tolist()
    (5.0, [2.0, 4.0])
    """
    check_function("grad", function)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        """Return (value of the call, gradients of the arguments in `argnums`, nested as those are)."""
        call = TransformCall("grad", function, args, kwargs, _places("grad", argnums, args))
        if has_aux and not (isinstance(call.result, tuple) and len(call.result) == 2):
            raise DTypeError(f"with has_aux {call.name} must give a pair (value, anything else)")
        value = call.scalar(call.result[0] if has_aux else call.result)
        found = dict(zip(call.given, value.gradient(*call.before), strict=True))
        return call.value(), _per_argument(argnums, args, lambda tensor: call.tensor(found[tensor].uop))

    return wrapped


def _places(what: str, argnums: Argnums, args: Sequence[Any]) -> tuple[int, ...]:
    """Return the indices of the arguments to differentiate by, counted from the front.

    Raises IndexError for none such.
    """
    places = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not all(isinstance(place, int) for place in places):
        raise DTypeError(f"{what} takes the number of an argument as argnums, or a tuple of them, got {argnums!r}")
    for place in places:
        if not -len(args) <= place < len(args):
            raise IndexError(f"{what} got argnums {place}, for a call with {len(args)} positional arguments")
    return tuple(place % len(args) for place in places)


def _per_argument(argnums: Argnums, args: Sequence[Any], change: Callable[[Tensor], Any]) -> Any:
    """Return the chosen arguments with each tensor changed: one argument for an int, a tuple for several."""
    if isinstance(argnums, int):
        return mapped(args[argnums], Tensor, change)
    return tuple(mapped(args[place], Tensor, change) for place in argnums)


def vjp(function: TensorFunction, *primals: Any) -> tuple[Any, TensorFunction]:
    """What function gives for primals, and a function from gradients of that to a tuple of gradients of primals.

    The gradients that it takes are nested as the result is. Raises DTypeError for what is no float, ShapeError.

    >>> from tinygraft import Tensor, vjp
    >>> value, back = vjp(lambda x: x * x, Tensor([1.0, 2.0]))
    >>> back(Tensor([1.0, 10.0]))[0].tolist()
    [2.0, 40.0]
    """
    check_function("vjp", function)
    call = TransformCall("vjp", function, primals, {}, None)
    call.only_floats()

    def back(gradients: Any) -> tuple[Any, ...]:
        """Return the gradients of all arguments, given those of the results, nested alike."""
        total: list[UOp] = []
        # one walk for each result, and their sum: the gradient of several results is the sum of the gradients
        for result, seed in zip(call.results, _alike("vjp", gradients, call.results), strict=True):
            parts = [part.uop for part in result.gradient(*call.before, gradient=seed)]
            total = [a + b for a, b in zip(total, parts, strict=True)] if total else parts
        found = dict(zip(call.given, total or [full_like(node, 0) for node in call.inside], strict=True))
        return mapped(primals, Tensor, lambda tensor: call.tensor(found[tensor]))  # type: ignore[no-any-return]

    return call.value(), back


def _alike(what: str, nested: Any, wanted: Sequence[Tensor]) -> list[Tensor]:
    """Return the tensors in a nest, cast to the dtypes of those `wanted`. Raises ShapeError for other shapes."""
    given = tensors_in(nested)
    shapes, needed = [tensor.shape for tensor in given], [tensor.shape for tensor in wanted]
    if shapes != needed:
        raise ShapeError(f"{what} needs tensors of shapes {needed}, got {shapes}: one for each, nested alike")
    return [tensor._cast(like.dtype) for tensor, like in zip(given, wanted, strict=True)]  # type: ignore[misc]


def jvp(function: TensorFunction, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """What function gives for primals, and how that changes when they change by tangents, nested alike.

    Raises ShapeError, DTypeError for what is no float, and GraphError where a Function has a backward that is not
    linear in the gradient.

    >>> from tinygraft import Tensor, jvp
    >>> value, change = jvp(lambda x: x * x, (Tensor([1.0, 2.0]),), (Tensor([1.0, 10.0]),))
    >>> value.tolist(), change.tolist()
    ([1.0, 4.0], [2.0, 40.0])
    """
    check_function("jvp", function)
    for name, values in (("primals", primals), ("tangents", tangents)):
        if not isinstance(values, (tuple, list)):
            raise DTypeError(
                f"jvp takes {name} as a tuple, one for each argument, got {type(values).__name__}\n"
                "  hint: jvp(function, (x,), (change_of_x,))"
            )
    call = TransformCall("jvp", function, tuple(primals), {}, None)
    call.only_floats()
    given = tensors_in(tuple(primals))
    by_tensor = dict(zip(given, _alike("jvp", tuple(tangents), given), strict=True))  # type: ignore[arg-type]
    changes = [_pushed(call, result, [by_tensor[tensor].uop for tensor in call.given]) for result in call.results]
    return call.value(), call.put_back(changes)


def _pushed(call: TransformCall, result: Tensor, tangents: Sequence[UOp]) -> UOp:
    """How one result of a call changes when its arguments change by tangents: the double-backward trick.

    The gradient by the arguments is linear in its seed, so its derivative by the seed, with the tangents as gradient,
    is the Jacobian times the tangents. Raises GraphError where a Function's backward is not linear in its gradient.
    """
    seed = _unknown(result)
    total: UOp | None = None
    for part, tangent in zip(result.gradient(*call.before, gradient=seed), tangents, strict=True):
        (change,) = gradient(part.uop, [seed.uop], tangent)
        if change is not None:
            total = change if total is None else total + change
    found = full_like(result.uop, 0) if total is None else _not_after(total, seed.uop)
    # a derivative of a linear function does not depend on the seed
    if substitute(found, {seed.uop: full_like(seed.uop, 0)}) is not found:
        raise GraphError(
            f"the backward of a Function in {call.name} is not linear in the gradient it is given, and {call.what} "
            "needs that"
        )
    return found


def _not_after(root: UOp, unknown: UOp) -> UOp:
    """A graph without the AFTERs that wait for a node that depends on the placeholder `unknown`.

    A checkpoint computes again AFTER the gradient of its value. Here that is a placeholder which gets no value, so an
    AFTER of it would wait forever.
    """
    depends, done = {unknown}, dict[UOp, UOp]()
    for node in toposort(root):
        if not depends.isdisjoint(node.src):
            depends.add(node)
            if node.op is Ops.AFTER and node.src[1] in depends:
                done |= rebuild(node.src[:1], done)
                done[node] = done[node.src[0]]
    return rebuild((root,), done)[root]


def _unknown(like: Tensor) -> Tensor:
    """Return a PLACEHOLDER tensor of another's shape, dtype and device, whose value is put into the graph later."""
    return like._wrap(UOp.placeholder(like.shape, like.dtype, like.uop.device, "a derivative"))


def jacobian(function: TensorFunction, argnums: Argnums = 0) -> TensorFunction:
    """A function that returns the derivatives of all elements of function's result by all elements of its argument.

    Each has the shape of the result followed by that of the argument. They come in the nesting of the result, and in it
    in that of the argument (a tuple for several argnums). Result or argument may be complex, not both. The gradients of
    all elements of the result, or the changes for all elements of the argument where those are fewer, are computed as
    one batch. Raises as vjp and jvp do.

    >>> from tinygraft import Tensor, jacobian
    >>> jacobian(lambda x: x * x)(Tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        """Return for each result, nested alike, its derivatives by the arguments in `argnums`. Raises DTypeError."""
        places = _places("jacobian", argnums, args)
        call = TransformCall("jacobian", function, args, kwargs, places)
        call.only_floats()
        if has_complex([args[place] for place in places]) and has_complex(call.result):
            raise DTypeError(
                f"jacobian of {call.name}, which gives complex numbers, by complex numbers: a derivative of one by the "
                "other is four real numbers\n"
                f"  hint: differentiate by z.view_as_real(), and give the result's view_as_real()"
            )

        def row(result: Tensor) -> Any:
            found = {tensor: _derivatives(call, result, place) for place, tensor in enumerate(call.given)}
            return _per_argument(argnums, args, lambda tensor: call.tensor(found[tensor]))

        return mapped(call.result, Tensor, row)

    return wrapped


def _derivatives(call: TransformCall, result: Tensor, place: int) -> UOp:
    """Return the Jacobian of one result by one argument: a shape of the result's axes followed by the argument's.

    Raises ShapeError for symbolic sizes.
    """
    argument = call.before[place]
    for tensor in (argument, result):
        if not all(isinstance(size, int) for size in tensor.shape):
            raise ShapeError(f"{call.what} needs sizes that are numbers, {call.name} has {tensor.shape}")
    rows, columns = prod(result.shape), prod(argument.shape)
    if rows <= columns:  # as many gradients as the result has elements, or as many changes as the argument has
        seed = _unknown(result)
        (part,) = result.gradient(argument, gradient=seed)
        return reshape(_for_each_unit(part.uop, seed.uop, rows), (*result.shape, *argument.shape))
    tangent = _unknown(argument).uop
    tangents = [tangent if i == place else full_like(node, 0) for i, node in enumerate(call.inside)]
    found = _for_each_unit(_pushed(call, result, tangents), tangent, columns)
    return reshape(permute(found, (*range(1, len(found.shape)), 0)), (*result.shape, *argument.shape))


def _for_each_unit(node: UOp, unit: UOp, count: int) -> UOp:
    """node for each value of a placeholder that is 1 in one element and 0 in all others, along a first axis."""
    # an identity matrix as an expression: no memory, and it fuses
    line, grid = iota(count, unit.device), (count, count)
    eye = expand(reshape(line, (count, 1)), grid).eq(expand(reshape(line, (1, count)), grid)).cast(unit.dtype)
    ((found, has_axis),) = batched([node], {unit: reshape(eye, (count, *unit.shape))}, count)
    return found if has_axis else expand(reshape(found, (1, *found.shape)), (count, *found.shape))


def hessian(function: TensorFunction, argnums: Argnums = 0) -> TensorFunction:
    """A function that returns the second derivatives of function, which returns one float, by its argument.

    For one tensor of shape s they have shape s + s; several arguments, or nested ones, give all pairs, nested twice.

    >>> from tinygraft import Tensor, hessian
    >>> hessian(lambda x: (x * x * x).sum())(Tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacobian(grad(function, argnums), argnums)
