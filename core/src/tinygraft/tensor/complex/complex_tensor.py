"""ComplexTensor: complex numbers as a tensor of their real parts and one of their imaginary parts.

It is no node of the graph but two real tensors of one shape, dtype and device, so the scheduler, codegen and devices
have no complex numbers, and gradients, captures and shards are those of the parts. Here are the hooks of
`base.py` for it; every method of Tensor that is written with hooks works on complex numbers by that. One that needs
a node, a float or an order raises DTypeError with its name. Functions that have a formula of their own are here too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tinygraft.dtype import DType, DTypeLike, complex_of, dtypes, part_of, promote, to_dtype
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.complex import complex_arithmetic as arithmetic
from tinygraft.tensor.complex import complex_derivatives as derivatives
from tinygraft.tensor.complex.complex_access import ComplexAccess, partwise
from tinygraft.tensor.complex.complex_arithmetic import ComplexPair
from tinygraft.tensor.complex.complex_linalg import ComplexLinalg
from tinygraft.tensor.complex.complex_reductions import ComplexReductions
from tinygraft.tensor.ops.math.floating import as_operand
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.base import TensorBase, common_dtype, verb
from tinygraft.tensor.primitives.broadcasting import broadcast_shape
from tinygraft.tensor.primitives.elementwise import multiplied_out
from tinygraft.tensor.primitives.movement import sliced
from tinygraft.tensor.state.made_at import here
from tinygraft.tensor.state.storage import declare
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import FUNCTIONS, Ops
from tinygraft.uop.sizes import Shape
from tinygraft.uop.uop import UOp

_SIGMOID = derivatives.analytic("sigmoid")


def joined(real: Any, imaginary: Any) -> ComplexTensor:
    """Return the complex tensor with these parts, broadcast together and promoted to float32 or float64.

    Raises ShapeError where they do not broadcast.
    """
    part = part_of(complex_of(promote(real.dtype, imaginary.dtype)))
    shape = broadcast_shape(real.shape, imaginary.shape)
    if shape is None:
        raise ShapeError(
            f"real parts of shape {real.shape} and imaginary parts of shape {imaginary.shape} cannot be broadcast "
            f"together\n  made at {real._where()}      and {imaginary._where()}"
        )
    new = object.__new__(ComplexTensor)
    halves = [t if t.dtype is part and t.shape == shape else t._cast(part).expand(shape) for t in (real, imaginary)]
    new._halved, new._made = (halves[0], halves[1]), here()
    return new


def of_pair(pair: ComplexPair) -> ComplexTensor:
    """Return the complex tensor of a pair; zeros for an imaginary part of None."""
    return joined(*arithmetic.full(pair))


def pair_of(value: Any, like: Any, dtype: DType) -> ComplexPair:
    """Return a real or complex tensor, or a number in the shape of `like`, as a pair with parts of the real `dtype`."""
    if isinstance(value, ComplexTensor):
        return ComplexPair(*(half._cast(dtype) for half in value._halved))
    if isinstance(value, TensorBase):
        return ComplexPair(value._cast(dtype))
    real = like._const(value.real if isinstance(value, complex) else value, dtype)
    return ComplexPair(real, like._const(value.imag, dtype) if isinstance(value, complex) else None)


def elementwise(op: Ops, operands: Sequence[Any]) -> Any:
    """Return an op of operands of which some are complex: `_op` of base.py for them.

    Raises DTypeError for an op without a meaning for complex numbers, such as an order, and for a condition of WHERE
    that is no bool.
    """
    values = operands[1:] if op is Ops.WHERE else operands
    part = part_of(common_dtype(values))
    tensors: list[Any] = [operand for operand in operands if isinstance(operand, TensorBase)]
    rule = derivatives.RULES.get(op)
    if rule is None and op in FUNCTIONS:
        tensors[0]._undefined()
    if rule is None:
        why = ": they have no order" if op in (Ops.CMPLT, Ops.MAX, Ops.MIN) else ""
        raise DTypeError(f"cannot {verb(op)} complex numbers{why}\n  made at {tensors[0]._where()}")
    if op is Ops.WHERE and operands[0].dtype is not dtypes.bool:
        raise DTypeError(
            f"where needs a condition of bool, got {operands[0].dtype}\n  made at {operands[0]._where()}\n"
            "  hint: compare first, as in (t != 0).where(a, b)"
        )
    tensors[0]._same_device(op, tensors)
    like = next((half for t in tensors for half in t._parts()), None)
    pairs = [pair_of(value, like, part) for value in values]
    found = rule(operands[0], *pairs) if op is Ops.WHERE else rule(*pairs)
    return of_pair(found) if isinstance(found, ComplexPair) else found


def of_real(tensor: TensorBase, dtype: DType) -> ComplexTensor:
    """Return real numbers as complex ones of a complex `dtype`: `_cast` of base.py."""
    return of_pair(ComplexPair(tensor._cast(part_of(dtype))))


def constant(tensor: TensorBase, value: Any, dtype: DType) -> ComplexTensor:
    """Return a number in the shape of a tensor, of a complex `dtype`: `_const` of base.py."""
    return of_pair(pair_of(value, tensor._parts()[0], part_of(dtype)))


def of_shape(tensor: Any, dtype: DType, shape: Shape) -> Any:
    """Return a tensor cast to a complex dtype and broadcast to a shape."""
    found = tensor._cast(dtype)
    return found if found.shape == shape else found.expand(shape)


def _analytic(name: str) -> Callable[[ComplexTensor], ComplexTensor]:
    """Return a method that is the function of that name of complex numbers."""
    function, method = derivatives.analytic(name), type.__getattribute__(Tensor, name)

    @functools.wraps(method)
    def of_complex(self: ComplexTensor) -> ComplexTensor:
        return of_pair(function(ComplexPair(*self._halved)))

    return of_complex


class ComplexTensor(ComplexAccess, ComplexLinalg, ComplexReductions):
    """A tensor of complex64 or complex128. Tensor makes it where its data or dtype is complex.

    >>> from tinygraft import Tensor
    >>> z = Tensor([1 + 2j, 3.0])
    >>> (z * 1j).tolist(), z.dtype, z.abs().square().tolist()
    ([(-2+1j), 3j], dtypes.complex64, [5.0, 9.0])
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """What Tensor makes of the arguments, which may be real."""
        return Tensor(*args, **kwargs)

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    # The hooks

    def _parts(self) -> tuple[Any, ...]:
        """The hook `_parts`: the real and the imaginary tensor."""
        return self._halved

    def _again(self) -> Any:
        """The hook `_again` on both parts."""
        return joined(*(half._again() for half in self._halved))

    def _wrap(self, uop: UOp, *others: TensorBase) -> Any:
        """The hook `_wrap`: a real tensor of a node, made as one from the real part."""
        return self._halved[0]._wrap(uop, *others)

    @classmethod
    def _from(cls, node: UOp, requires_grad: bool | None = None) -> Any:
        """The hook `_from`: a real tensor of a node."""
        return Tensor._from(node, requires_grad)

    def _op(self, op: Ops, *others: Any) -> Any:
        """The hook `_op`: an elementwise op with others. Raises as `elementwise`."""
        return elementwise(op, [self, *(self._operand(op, other) for other in others)])

    def _broadcasted(self, other: Any, op: Ops = Ops.EXPAND) -> Any:
        """Return self and `other` in their common dtype and shape; a number stays of shape (). `op` is for errors."""
        value = self._operand(op, other)
        dtype = common_dtype([self, value])
        if not isinstance(value, TensorBase):
            return self._cast(dtype), self._const(value, dtype)
        self._same_device(op, (self, value))
        shape = broadcast_shape(self.shape, value.shape)
        if shape is None:
            return self._halved[0]._broadcasted(value._parts()[0], op)  # which says what does not fit
        return of_shape(self, dtype, shape), of_shape(value, dtype, shape)

    def _move(self, op: Ops, arg: Any) -> Any:
        """The hook `_move` on both parts.

        A running product is multiplied out, other running reductions raise DTypeError.
        """
        if op is Ops.SCAN and arg.op is not Ops.ADD:
            return self._running_product(arg.axis) if arg.op is Ops.MUL else self._undefined()
        return joined(*(half._move(op, arg) for half in self._halved))

    def _join(self, op: Ops, *others: TensorBase, arg: Any = None) -> Any:
        """The hook `_join` on both parts; a real one of `others`, such as an index, is used for both."""
        if op is Ops.SCATTER and arg.op not in (None, Ops.ADD):
            self._undefined()
        sides = [other._parts() if other.dtype.kind == "complex" else (other, other) for other in others]
        return joined(*(half._join(op, *(s[i] for s in sides), arg=arg) for i, half in enumerate(self._halved)))

    def _reduce(self, op: Ops, axes: int | Sequence[int] | None, keepdim: bool = False) -> Any:
        """The hook `_reduce`: sums and products. Others raise, for complex numbers have no order."""
        if op is Ops.MUL:
            return self._product_over(self._axes(axes), keepdim)
        if op is not Ops.ADD:
            self._undefined()
        return joined(*(half._reduce(op, axes, keepdim) for half in self._halved))

    def _product_over(self, axes: tuple[int, ...], keepdim: bool) -> Any:
        """Return the product over axes: one half of what is left is multiplied with the other half, log2(n) times.

        The axes need known sizes; the product of no elements is 1.
        """
        if not axes:
            return self._again()
        kept = [axis for axis in range(self.ndim) if axis not in axes]
        count = size_math.as_int(size_math.product(self.shape[a] for a in axes), "prod")
        x: Any = self.permute(*kept, *axes).reshape(*(self.shape[a] for a in kept), count)
        while count > 1:
            half = count // 2
            last = sliced(x, x.ndim - 1, 2 * half, count)
            x = sliced(x, x.ndim - 1, 0, half) * sliced(x, x.ndim - 1, half, 2 * half)
            x, count = (x.cat(last, dim=-1), half + 1) if count % 2 else (x, half)
        x = x.squeeze(-1) if count else x._const(1.0)._reduce(Ops.ADD, -1) + 1.0
        return x.reshape(tuple(1 if a in axes else size for a, size in enumerate(self.shape))) if keepdim else x

    def _running_product(self, axis: int) -> Any:
        """Return the running product along an axis of known size.

        Each element is multiplied with the one 1, 2, 4, ... indices before it.
        """
        x: Tensor = self
        step, length = 1, size_math.as_int(self.shape[axis], "cumprod")
        while step < length:
            before = sliced(x, axis, 0, length - step)
            x = sliced(x, axis, 0, step).cat(sliced(x, axis, step, length) * before, dim=axis)
            step *= 2
        return x._again()

    def _cast(self, dtype: DTypeLike) -> Any:
        """The hook `_cast`: to another complex dtype, or to bool. Raises DTypeError for a real one."""
        to = to_dtype(dtype)
        if to is dtypes.bool:
            return self._op(Ops.CMPNE, 0)
        if to.kind != "complex":
            raise DTypeError(
                f"cannot cast {self.dtype} to {to}: that would lose the imaginary parts\n  made at {self._where()}\n"
                "  hint: take t.real or t.abs() first"
            )
        return joined(*(half._cast(part_of(to)) for half in self._halved))

    def _const(self, value: Any, dtype: DType | None = None) -> Any:
        """The hook `_const`: a number in this shape, of `dtype` or the common dtype of both."""
        of = dtype or common_dtype([self, value])
        return constant(self, value, of) if of.kind == "complex" else self._halved[0]._const(value, of)

    def _is_data(self) -> bool:
        """The hook `_is_data`: False."""
        return False

    def _is_float(self) -> bool:
        """Raise DTypeError: complex numbers are no floats."""
        self._undefined()

    def _in_float(self) -> NoReturn:
        """Raise DTypeError: there is no float without a loss."""
        self._undefined()

    def _in_field(self) -> Any:
        """The hook `_in_field`: this tensor, which has division already."""
        return self

    def _narrowed(self, like: DType) -> Any:
        """The hook `_narrowed`: this tensor."""
        return self

    def _real(self) -> Tensor:
        """Return the real part."""
        return self._halved[0]

    def _conj(self) -> Any:
        """Return the conjugate."""
        return joined(self._halved[0], -self._halved[1])

    # Parts

    def abs(self) -> Any:
        """The magnitudes, which are real; the gradient at 0 is 0."""
        a, b = self._halved
        nothing = arithmetic.is_zero(ComplexPair(a, b))
        return nothing.where(0.0, nothing.where(1.0, a).hypot(b))

    def angle(self) -> Any:
        """The angles in radians, from -pi to pi, which are real."""
        return self._halved[1].atan2(self._halved[0])

    def sign(self) -> Any:
        """Each number divided by its magnitude; 0 for 0."""
        size = self.abs()
        nothing = size == 0
        return nothing.where(0.0, self) / nothing.where(1.0, size)

    def _ranks(self) -> Any:
        """Return the ranks of the elements by the real and then the imaginary part, for unique."""
        return self.view_as_real().flatten(1)._ranks()

    def _halves(self) -> Any:
        """Return the real and the imaginary part."""
        return self._halved

    # Arithmetic that has a form of its own

    def _product(self, x: Any, dtype: DTypeLike | None) -> Any:
        """Return the product of matrices with `x` in their common dtype, or in `dtype`: four products of real ones."""
        to = promote(self.dtype, x.dtype) if dtype is None else to_dtype(dtype)
        if to.kind != "complex":  # a bool, or `_cast` raises
            return self._cast(to)._product(x._cast(to), to)
        (a, b), (c, d) = self._cast(to)._halved, x._cast(to)._halved
        return joined(a._product(c, None) - b._product(d, None), a._product(d, None) + b._product(c, None))

    def _const_power(self, x: int | float) -> Any:
        """This to the power of a number: by SQRT, or by multiplications for an integer up to 64, else by POW."""
        power = abs(x)
        if power == 0.5:
            found = self._op(Ops.SQRT)
        elif power <= 64 and power == int(power):
            found = multiplied_out(self, int(power))
        else:
            return self._op(Ops.POW, x)
        return found if x >= 0 else found._op(Ops.RECIPROCAL)

    def isclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
        """Whether |self - other| <= atol + rtol * |other|, as bools; NaN is close to NaN only if `equal_nan`.

        Infinities are close where they are equal. Raises ValueError for a tolerance below 0.
        """
        if rtol < 0 or atol < 0:
            raise ValueError(f"isclose needs tolerances of at least 0, got rtol={rtol} and atol={atol}")
        a, b = self._broadcasted(other)
        close = (a == b) | ((a - b).abs() <= b.abs() * rtol + atol) & b.isfinite()
        return close | (a.isnan() & b.isnan()) if equal_nan else close

    def isnan(self) -> Any:
        """Whether a part is not a number, as bools."""
        return self._halved[0].isnan() | self._halved[1].isnan()

    def isinf(self, detect_positive: bool = True, detect_negative: bool = True) -> Any:
        """Whether a part is infinite. Raises DTypeError for only one sign: complex infinities have none."""
        if not (detect_positive and detect_negative):
            self._undefined()
        return self._halved[0].isinf() | self._halved[1].isinf()

    def isfinite(self) -> Any:
        """Whether both parts are finite, as bools."""
        return self._halved[0].isfinite() & self._halved[1].isfinite()

    def sinc(self) -> Any:
        """sin(pi x) / (pi x), 1 at zero."""
        zero = self == 0
        x = zero.where(1.0, self) * math.pi
        return zero.where(1.0 - self * self, x.sin() / x)

    def _sigmoid(self) -> Any:
        """Return 1 / (1 + exp(-z)), with its derivative."""
        return of_pair(_SIGMOID(ComplexPair(*self._halved)))

    def ldexp(self, exponent: Any) -> Any:
        """self * 2**exponent, which is a number or a tensor that broadcasts."""
        power = as_operand(self, exponent)
        return self * (power if power.is_complex() else power._cast(part_of(self.dtype))).exp2()

    def logaddexp(self, other: Any) -> Any:
        """log(exp(self) + exp(other)), without overflow: the larger, and the principal value of what it grows by."""
        a, b = self._broadcasted(other)
        less = a.real < b.real
        large, small = less.where(b, a), less.where(a, b)
        apart = (large == small).where(0.0, small - large)  # also of two equal infinities
        return large + apart.exp().log1p()

    round = partwise("round")
    exp, expm1, log, log1p, log10 = (_analytic(name) for name in ("exp", "expm1", "log", "log1p", "log10"))
    cos, tan, sinh, cosh, tanh = (_analytic(name) for name in ("cos", "tan", "sinh", "cosh", "tanh"))
    asin, acos, atan, asinh, acosh, atanh = (
        _analytic(name) for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")
    )


for _kind in ComplexTensor.__mro__[: ComplexTensor.__mro__.index(Tensor)]:
    for _name, _found in vars(_kind).items():
        declare(_name, _found)
