"""Functions with a derivative of their own: the class `Function`, and the decorator `function`.

    class Cube(Function):
        def forward(self, x): ...       # tensors to a tensor, or to a tuple; saves on self what backward needs
        def backward(self, gradient): ...  # the gradient of the result to those of the inputs

    y = Cube.apply(x)

What forward and backward compute is ordinary lazy graph: it fuses with what is around it, runs under TinyJit and can be
differentiated again, the derivative by the operations of backward. A value that backward reads as a number (item,
numpy) is a constant for such a second derivative.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from tinygraft.device.registry import Device
from tinygraft.engine.exclusive import exclusive
from tinygraft.errors import DTypeError, GraphError, UnsupportedError
from tinygraft.tensor.nested import tensors_in
from tinygraft.tensor.primitives.custom import may_require_grad, with_derivative
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, toposort

__all__ = ["Function", "function"]

P = ParamSpec("P")
R = TypeVar("R")


class Function:
    """A function of tensors with its own derivative. Derive from it, and call `apply`.

    forward(*tensors, **arguments) returns a tensor or a tuple of them. Its tensors are detached: gradients flow only
    through backward(*gradients), which gets the gradient of each result and returns that of each input, or None where
    an input has none; a single one needs no tuple. forward saves values for backward as attributes of self. device is
    that of the inputs, needs_input_grad says which inputs may need a gradient (in backward: do need one), and
    requires_grad is True, False, or None where backward chooses.

    >>> from tinygraft import Tensor
    >>> class Cube(Function):
    ...     def forward(self, x):
    ...         self.x = x
    ...         return x * x * x
    ...     def backward(self, gradient):
    ...         return gradient * 3 * self.x * self.x
    >>> x = Tensor([2.0], requires_grad=True)
    >>> y = Cube.apply(x)
    >>> first = y.sum().gradient(x)[0]
    >>> y.tolist(), first.tolist(), first.sum().gradient(x)[0].tolist()
    ([8.0], [12.0], [12.0])
    """

    needs_input_grad: list[bool]

    def __init__(self, device: str, *tensors: Tensor) -> None:
        self.device = device
        self.needs_input_grad = [may_require_grad(tensor) for tensor in tensors]
        flags = [tensor.requires_grad for tensor in tensors if may_require_grad(tensor)]
        self.requires_grad: bool | None = True if True in flags else None if flags else False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the value. Every Function defines its own."""
        raise UnsupportedError(f"{type(self).__name__} has no forward; write def forward(self, x, ...): return ...")

    def backward(self, *gradients: Any, **kwargs: Any) -> Any:
        """Compute the gradients of the inputs. Every Function that is differentiated defines its own."""
        raise UnsupportedError(
            f"{type(self).__name__} has no backward, and its gradient is needed; "
            "write def backward(self, gradient): return ..."
        )

    @classmethod
    def apply(cls, *tensors: Tensor, **kwargs: Any) -> Any:
        """Return the value of forward for `tensors`, differentiated by backward.

        `kwargs` are passed to forward. Raises DTypeError where an argument or a result is no real tensor.
        """
        for number, tensor in enumerate(tensors):
            if not isinstance(tensor, Tensor):
                raise DTypeError(
                    f"{cls.__name__}.apply takes tensors, argument {number} is {type(tensor).__name__}\n"
                    "  hint: give other arguments by keyword, they go to forward as they are"
                )
            if tensor.is_complex():
                raise DTypeError(
                    f"{cls.__name__}.apply takes real tensors, argument {number} is {tensor.dtype} of shape "
                    f"{tensor.shape}\n  made at {tensor._where()}\n"
                    "  hint: give z.view_as_real(), and make of the result what view_as_complex() makes of it"
                )
        context = cls(tensors[0].device if tensors else Device.DEFAULT, *tensors)
        inputs = [_detached(tensor) for tensor in tensors]
        returned = context.forward(*inputs, **kwargs)
        values = returned if isinstance(returned, tuple) else (returned,)
        for value in values:
            if not isinstance(value, Tensor):
                raise DTypeError(
                    f"forward of {cls.__name__} must give a tensor or a tuple of them, it gave {type(value).__name__}"
                )
            if value.is_complex():
                raise DTypeError(
                    f"forward of {cls.__name__} must give real tensors, it gave {value.dtype} of shape {value.shape}\n"
                    "  hint: give its view_as_real()"
                )
        seen, zeros = [weakref.ref(t) for t in (*inputs, *values)], [value._const(0) for value in values]
        results = tuple(
            with_derivative(cls.__name__, value, tensors, functools.partial(context._derive, seen, zeros, number))
            for number, value in enumerate(values)
        )
        return results if isinstance(returned, tuple) else results[0]

    def _derive(
        self, seen: list[weakref.ref[Tensor]], zeros: list[Tensor], number: int, node: UOp, gradient: Tensor,
        wanted: list[bool],
    ) -> Sequence[Tensor | None]:  # fmt: skip
        """Return the gradients that backward computes for value `number`, whose node is `node`.

        `seen` are weak references to the inputs and values as forward had them; those that forward did not save may be
        dead. While backward runs, the inputs and that value have the nodes that the graph has for them now, not
        detached, so that backward can be differentiated. The other values get zeros as gradients; each has a call of
        its own, and the computation of gradients adds the results. `wanted` says which inputs require a gradient.
        """
        count = len(node.src) - 1
        now = [(seen[count + number](), node), *zip((ref() for ref in seen[:count]), node.src[1:], strict=True)]
        with exclusive:  # no other thread may see the tensors with other nodes
            saved = [(tensor, tensor.uop, tensor.requires_grad) for tensor, _ in now if tensor is not None]
            try:
                for tensor, uop in now:
                    if tensor is not None:
                        tensor.uop = uop
                        tensor._set_flag(None)
                self.needs_input_grad = wanted
                found = self.backward(*[gradient if i == number else zero for i, zero in enumerate(zeros)])
            finally:
                for tensor, uop, flag in saved:
                    tensor.uop = uop
                    tensor._set_flag(flag)
        return found if isinstance(found, (tuple, list)) else (found,)


def _detached(tensor: Tensor) -> Tensor:
    """Return a tensor of the same value, without a gradient, for forward."""
    new = tensor._wrap(tensor.uop)
    new._set_flag(False)
    return new


def function(
    fxn: Callable[P, R] | None = None,
    *,
    precompile: bool = False,
    precompile_backward: bool = False,
    allow_implicit: bool = True,
    grad_fxn: Callable[..., Any] | None = None,
) -> Any:
    """Decorate a function of tensors: give it a derivative, compile it when it is called, or refuse implicit inputs.

    grad_fxn(gradient, *tensors) gets the gradient of the result and the tensors among the positional arguments, and
    returns a gradient for each of these or None; the function is then not differentiated itself. precompile makes the
    kernels for the result when the function is called and runs none; precompile_backward is accepted: a gradient is a
    graph like any other, compiled once for all of its form. allow_implicit=False refuses memory that the function reads
    without getting it as an argument or making it.

    Raises GraphError for implicit memory, DTypeError when a function with grad_fxn gives no tensor.

    >>> from tinygraft import Tensor
    >>> @function(grad_fxn=lambda gradient, x: gradient * 10)
    ... def half(x):
    ...     return x / 2
    >>> x = Tensor([3.0], requires_grad=True)
    >>> half(x).sum().gradient(x)[0].tolist()
    [10.0]
    """
    if fxn is None:
        return functools.partial(
            function, precompile=precompile, precompile_backward=precompile_backward, allow_implicit=allow_implicit,
            grad_fxn=grad_fxn,
        )  # fmt: skip

    @functools.wraps(fxn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        """Call the function, refuse implicit memory and compile the result, each if the options say so."""
        start = UOp.next_buffer()
        result = fxn(*args, **kwargs) if grad_fxn is None else _with_gradient(fxn, grad_fxn, args, kwargs)
        made = [tensor for tensor in tensors_in(result) if isinstance(tensor, Tensor)]
        if not allow_implicit:
            _refuse_implicit(fxn, tensors_in((args, kwargs)), made, start)
        if precompile and made:
            # schedules and compiles all results at once; nothing is run
            made[0].callify(*made[1:])
        return result

    return wrapped


def _with_gradient(fxn: Callable[..., Any], grad_fxn: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
    """Return the value of a function whose gradients `grad_fxn` computes."""
    numbers = [number for number, arg in enumerate(args) if isinstance(arg, Tensor)]

    class Own(Function):
        def forward(self, *tensors: Tensor) -> Any:
            """Call the function with detached tensors in place of its tensor arguments; `backward` gets the same."""
            self.tensors = tensors
            arguments = list(args)
            for number, tensor in zip(numbers, tensors, strict=True):
                arguments[number] = tensor
            return fxn(*arguments, **kwargs)

        def backward(self, *gradients: Tensor) -> Any:
            return grad_fxn(*gradients, *self.tensors)

    Own.__name__ = getattr(fxn, "__name__", "function")
    return Own.apply(*[args[number] for number in numbers])  # type: ignore[no-any-return]


def _refuse_implicit(fxn: Callable[..., Any], arguments: Any, made: list[Tensor], start: int) -> None:
    """Raise GraphError when results read memory that is neither of the arguments nor made after the id `start`."""
    known = {node for tensor in arguments for node in toposort(tensor.uop)}
    for tensor in made:
        for node in toposort(tensor.uop, enter=lambda n: n not in known):
            if node.op is Ops.BUFFER and node not in known and node.arg.uid < start:
                raise GraphError(
                    f"{getattr(fxn, '__name__', 'the function')} reads a tensor of {node.arg.size} {node.dtype} that "
                    "is no argument of it\n  hint: pass it as an argument, or allow_implicit=True"
                )
