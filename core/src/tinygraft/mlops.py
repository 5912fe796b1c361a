"""The 25 named functions of older scripts, as classes with forward and backward, from the table of derivatives.

    y = Sigmoid.apply(x)            or            f = Div(device, x, y); z = f.forward(x, y); gx, gy = f.backward(g)

forward has the expression, with the arguments and attributes that the classes are documented with; operands of one
call have one shape and dtype, as nodes have. backward differentiates that expression by `autograd.vjp`, so that a
derivative is defined only there; a class that differs from the table says so. Methods of Tensor do not use
these classes: they build the same nodes themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tinygraft.autograd.walk import gradient as gradient_nodes
from tinygraft.dtype import DType
from tinygraft.functions import Function
from tinygraft.helpers import argsort
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.sizes import Shape, sint
from tinygraft.uop.uop import UOp, rebuild

__all__ = [
    "Add", "Cast", "Contiguous", "ContiguousBackward", "Div", "Exp", "Expand", "Flip", "Function", "Less", "Log",
    "Max", "Mul", "Neg", "Pad", "Permute", "Relu", "Reshape", "Shrink", "Sigmoid", "Sin", "Sqrt", "Sub", "Sum", "Where",
    "Zero",
]  # fmt: skip

_marks = itertools.count(-1, -1)  # numbers for tags; those of gradient leaves are not negative


class _Derived(Function):
    """A function whose derivative follows from its expression."""

    def _derived(self, expression: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """Return the value of an expression of inputs, which backward differentiates."""
        self._expression, self._inputs = expression, inputs
        return expression(*inputs)

    def backward(self, grad_output: Tensor) -> Any:
        """Return the gradient of the input, or of each of several: None where it needs none.

        Each input is marked, so that differentiation ends there, also where one is computed from another, or is it.
        """
        marked = [UOp(Ops.DETACH, t.dtype, (t.uop,), tag=Own(next(_marks))) for t in self._inputs]
        root = self._expression(*[t._wrap(node) for t, node in zip(self._inputs, marked, strict=True)])
        found: Sequence[UOp | None] = [None] * len(marked)
        if root.dtype.kind == "float":
            found = gradient_nodes(root.uop, marked, grad_output.uop)
        swap = {grad_output.uop: grad_output.uop, **dict(zip(marked, (t.uop for t in self._inputs), strict=True))}
        # the gradients in terms of the inputs; grad_output is no input, and stays also where it reads a marked one
        done = rebuild([node for node in found if node is not None], swap)
        gradients = tuple(
            None if node is None or not needed else grad_output._wrap(done[node])
            for node, needed in zip(found, self.needs_input_grad, strict=True)
        )
        return gradients[0] if len(gradients) == 1 else gradients


# Elementwise, one operand


class Neg(_Derived):
    """-x."""

    def forward(self, x: Tensor) -> Tensor:
        """The negated values."""
        return self._derived(lambda x: -x, x)


class Sin(_Derived):
    """The sine of x in radians."""

    def forward(self, x: Tensor) -> Tensor:
        """The sine of each value."""
        self.x = x
        return self._derived(lambda x: x.sin(), x)

    def backward(self, grad: Tensor) -> Any:
        """The gradient times the cosine."""
        return super().backward(grad)


class Sqrt(_Derived):
    """The square root of x."""

    def forward(self, x: Tensor) -> Tensor:
        """The square root of each value."""
        self.ret: Tensor = self._derived(lambda x: x.sqrt(), x)
        return self.ret


class Exp(_Derived):
    """e to the power of x."""

    def forward(self, x: Tensor) -> Tensor:
        """The exponential of each value."""
        self.ret: Tensor = self._derived(lambda x: x.exp(), x)
        return self.ret


class Log(_Derived):
    """The natural logarithm of x."""

    def forward(self, x: Tensor) -> Tensor:
        """The logarithm of each value."""
        self.x = x
        return self._derived(lambda x: x.log(), x)


class Relu(_Derived):
    """x where it is positive, else 0; the gradient at 0 is 0."""

    def forward(self, x: Tensor) -> Tensor:
        """The positive part of each value."""
        self.x = x
        self.ret: Tensor = self._derived(lambda x: x.relu(), x)
        return self.ret


class Sigmoid(_Derived):
    """1 / (1 + e**-x)."""

    def forward(self, x: Tensor) -> Tensor:
        """The sigmoid of each value."""
        self.ret: Tensor = self._derived(lambda x: x.sigmoid(), x)
        return self.ret


class Cast(Function):
    """x as another dtype: its values, or with bitcast its bits."""

    input_dtype: DType
    bitcast: bool

    def forward(self, x: Tensor, dtype: DType, bitcast: bool = False) -> Tensor:
        """The values, or the bits, as dtype."""
        self.input_dtype, self.bitcast = x.dtype, bitcast
        return x.bitcast(dtype) if bitcast else x.cast(dtype)

    def backward(self, grad_output: Tensor) -> Tensor:
        """The gradient as the dtype of the input, its bits where forward took the bits."""
        return grad_output.bitcast(self.input_dtype) if self.bitcast else grad_output.cast(self.input_dtype)


class Zero(Function):
    """Zeros of the shape of x; its values have no effect."""

    def forward(self, x: Tensor) -> Tensor:
        """Zeros."""
        return x.zeros_like()

    def backward(self, grad: Tensor) -> Tensor:
        """Zeros."""
        return grad.zeros_like()


# Elementwise, several operands


class Add(_Derived):
    """x + y."""

    x: Tensor
    y: Tensor

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum of both."""
        self.x, self.y = x, y
        return self._derived(lambda x, y: x + y, x, y)


class Sub(_Derived):
    """x - y."""

    x: Tensor
    y: Tensor

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The difference of both."""
        self.x, self.y = x, y
        return self._derived(lambda x, y: x - y, x, y)


class Mul(_Derived):
    """x * y."""

    x: Tensor
    y: Tensor

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The product of both."""
        self.x, self.y = x, y
        return self._derived(lambda x, y: x * y, x, y)


class Div(_Derived):
    """x / y."""

    x: Tensor
    y: Tensor

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The quotient of both."""
        self.x, self.y = x, y
        return self._derived(lambda x, y: x / y, x, y)


class Less(_Derived):
    """Whether x is less than y; there is no gradient."""

    x: Tensor
    y: Tensor

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """True where x < y."""
        self.x, self.y = x, y
        return self._derived(lambda x, y: x < y, x, y)


class Where(_Derived):
    """y where the condition x holds, else z; the gradient of the condition is None."""

    def forward(self, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        """One of two values, for each condition."""
        self.x = x
        return self._derived(lambda x, y, z: x.where(y, z), x, y, z)


# Reductions, to a shape in which the axes that are reduced have size 1


class Sum(_Derived):
    """The sum over the axes that new_shape has with size 1."""

    def forward(self, x: Tensor, new_shape: Shape) -> Tensor:
        """The sums, of shape new_shape."""
        self.input_shape: Shape = x.shape
        return self._derived(lambda x: x.sum(_reduced(x.shape, new_shape), keepdim=True).cast(x.dtype), x)


class Max(_Derived):
    """The maximum over the axes that new_shape has with size 1; the gradient is divided among equal ones."""

    def forward(self, x: Tensor, new_shape: Shape) -> Tensor:
        """The maxima, of shape new_shape."""
        self.x = x
        self.ret: Tensor = self._derived(lambda x: x.max(_reduced(x.shape, new_shape), keepdim=True), x)
        return self.ret


def _reduced(shape: Shape, new_shape: Shape) -> tuple[int, ...]:
    return tuple(axis for axis, (old, new) in enumerate(zip(shape, new_shape, strict=True)) if old != new)


# Movement


class Expand(_Derived):
    """Axes of size 1 repeated to shape; the gradient is summed over them."""

    def forward(self, x: Tensor, shape: Shape) -> Tensor:
        """The values repeated to shape."""
        self.input_shape: Shape = x.shape
        return self._derived(lambda x: x.expand(shape), x)


class Reshape(_Derived):
    """The same elements in another shape."""

    def forward(self, x: Tensor, shape: Shape) -> Tensor:
        """The elements in shape."""
        self.input_shape: Shape = x.shape
        return self._derived(lambda x: x.reshape(shape), x)


class Permute(_Derived):
    """The axes in another order."""

    input_order: tuple[int, ...]
    inverse_order: tuple[int, ...]

    def forward(self, x: Tensor, order: tuple[int, ...]) -> Tensor:
        """The values with their axes in order."""
        self.input_order, self.inverse_order = order, argsort(order)
        return self._derived(lambda x: x.permute(order), x)


class Pad(_Derived):
    """Zeros before and after each axis; the gradient is cut to the elements between them."""

    def forward(self, x: Tensor, arg: tuple[tuple[int, int], ...]) -> Tensor:
        """The values with arg[axis] zeros before and after."""
        self.narg: tuple[tuple[int, Any], ...] = tuple(
            (before, size + before) for size, (before, _) in zip(x.shape, arg, strict=True)
        )
        return self._derived(lambda x: x.pad(arg), x)


class Shrink(_Derived):
    """The elements of each axis from start to end; the gradient is zero around them."""

    def forward(self, x: Tensor, arg: tuple[tuple[sint, sint], ...]) -> Tensor:
        """The values from arg[axis][0] to arg[axis][1]."""
        self.narg: tuple[tuple[sint, Any], ...] = tuple(
            (start, size - end) for size, (start, end) in zip(x.shape, arg, strict=True)
        )
        return self._derived(lambda x: x.shrink(arg), x)


class Flip(_Derived):
    """Some axes read backwards."""

    def forward(self, x: Tensor, axis: tuple[int, ...]) -> Tensor:
        """The values with the axes of axis reversed."""
        self.arg: tuple[int, ...] = tuple(
            -1 if i in {a % x.ndim for a in axis} else 1 for i in range(x.ndim)
        )  # as tinygrad's: a stride
        return self._derived(lambda x: x.flip(axis), x)


# Memory


class Contiguous(_Derived):
    """x in memory of its own; the gradient is the gradient."""

    def forward(self, x: Tensor) -> Tensor:
        """The values in memory of their own."""
        return self._derived(lambda x: x.contiguous(), x)


class ContiguousBackward(_Derived):
    """x; the gradient is made contiguous."""

    def forward(self, x: Tensor) -> Tensor:
        """The values as they are."""
        return self._derived(lambda x: x.contiguous_backward(), x)
