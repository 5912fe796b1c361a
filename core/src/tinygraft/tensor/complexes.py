"""ComplexTensor: complex numbers, held as a tensor of their real parts and one of their imaginary parts.

It is no node of the graph but two real tensors of one shape, dtype and device, so the scheduler, codegen and devices
know nothing of complex numbers, and gradients, captures and shards are those of the parts. Here are the hooks of
`base.py` for it; every method of Tensor that is written with hooks works on complex numbers by that. One that needs
a node, a float or an order raises DTypeError with its name. Functions that have a formula of their own are here too.

The gradient of a complex tensor has that of the real parts as real parts and that of the imaginary ones as imaginary
parts, which is what PyTorch gives: a step against it lowers the loss.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tinygraft.dtype import DType, DTypeLike, complex_of, dtypes, part_of, promote, to_dtype
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor import complex_arithmetic as arithmetic
from tinygraft.tensor import complex_derivatives as derivatives
from tinygraft.tensor import lengths
from tinygraft.tensor.base import TensorBase, _common_dtype, _here, broadcast_shape, verb
from tinygraft.tensor.complex_arithmetic import Pair
from tinygraft.tensor.complex_linalg import ComplexLinalg
from tinygraft.tensor.complex_reductions import ComplexReductions
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import Ops
from tinygraft.uop.shape import Shape
from tinygraft.uop.uop import Place, UOp

if TYPE_CHECKING:
    from numpy import ndarray

_HERE = __name__.rpartition(".")[0] + "."
_SIGMOID = derivatives.analytic("sigmoid")
_EITHER = Tensor.sum.__code__  # what `spelled` puts around a method


def joined(real: Any, imaginary: Any) -> ComplexTensor:
    """The complex tensor with these parts, broadcast together and promoted to float32 or float64."""
    part = part_of(complex_of(promote(real.dtype, imaginary.dtype)))
    shape = broadcast_shape(real.shape, imaginary.shape)
    if shape is None:
        raise ShapeError(
            f"real parts of shape {real.shape} and imaginary parts of shape {imaginary.shape} cannot be broadcast "
            f"together\n  made at {real._where()}      and {imaginary._where()}"
        )
    new = object.__new__(ComplexTensor)
    halves = [t if t.dtype is part and t.shape == shape else t._cast(part).expand(shape) for t in (real, imaginary)]
    new._halved, new._made = (halves[0], halves[1]), _here()
    return new


def of_pair(pair: Pair) -> ComplexTensor:
    """The complex tensor of a pair."""
    return joined(*arithmetic.full(pair))


def pair_of(value: Any, like: Any, dtype: DType) -> Pair:
    """A real or complex tensor, or a number in the shape of like, with parts of dtype."""
    if isinstance(value, ComplexTensor):
        return Pair(*(half._cast(dtype) for half in value._halved))
    if isinstance(value, TensorBase):
        return Pair(value._cast(dtype))
    real = like._const(value.real if isinstance(value, complex) else value, dtype)
    return Pair(real, like._const(value.imag, dtype) if isinstance(value, complex) else None)


def elementwise(op: Ops, operands: Sequence[Any]) -> Any:
    """An op of operands of which some are complex: `_op` of base.py for them."""
    values = operands[1:] if op is Ops.WHERE else operands
    part = part_of(_common_dtype(values))
    tensors = [operand for operand in operands if isinstance(operand, TensorBase)]
    rule = derivatives.RULES.get(op)
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
    return of_pair(found) if isinstance(found, Pair) else found


def of_real(tensor: TensorBase, dtype: DType) -> ComplexTensor:
    """Real numbers as complex ones of a dtype: `_cast` of base.py."""
    return of_pair(Pair(tensor._cast(part_of(dtype))))


def constant(tensor: TensorBase, value: Any, dtype: DType) -> ComplexTensor:
    """A number in the shape of a tensor: `_const` of base.py."""
    return of_pair(pair_of(value, tensor._parts()[0], part_of(dtype)))


def of_shape(tensor: Any, dtype: DType, shape: Shape) -> Any:
    """A tensor cast to a complex dtype and broadcast to a shape."""
    found = tensor._cast(dtype)
    return found if found.shape == shape else found.expand(shape)


def _partwise(name: str) -> Callable[..., ComplexTensor]:
    """A method that is the method of that name of both parts."""
    method = getattr(Tensor, name)

    @functools.wraps(method)
    def each(self: ComplexTensor, *args: Any, **kwargs: Any) -> ComplexTensor:
        return joined(*(method(half, *args, **kwargs) for half in self._halved))

    return each


def _analytic(name: str) -> Callable[[ComplexTensor], ComplexTensor]:
    """A method that is the function of that name of complex numbers."""
    function, method = derivatives.analytic(name), getattr(Tensor, name)

    @functools.wraps(method)
    def of_complex(self: ComplexTensor) -> ComplexTensor:
        return of_pair(function(Pair(*self._halved)))

    return of_complex


class ComplexTensor(ComplexLinalg, ComplexReductions):
    """A tensor of complex64 or complex128. Tensor makes it where its data or dtype is complex.

    >>> from tinygraft import Tensor
    >>> z = Tensor([1 + 2j, 3.0])
    >>> (z * 1j).tolist(), z.dtype, z.abs().square().tolist()
    ([(-2+1j), 3j], dtypes.complex64, [5.0, 9.0])
    """

    __slots__ = ("_halved",)
    _halved: tuple[Tensor, Tensor]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """What Tensor makes of the arguments, which may be real."""
        return Tensor(*args, **kwargs)

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    # What is known without computing

    @property
    def shape(self) -> Shape:
        """The length of each axis."""
        return self._halved[0].shape

    @property
    def dtype(self) -> DType:
        """complex64 or complex128."""
        return complex_of(self._halved[0].dtype)

    @property
    def device(self) -> Place:
        """Where the parts are."""
        return self._halved[0].device

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return self._halved[0].ndim

    @property
    def uop(self) -> UOp:  # type: ignore[override]
        """There is none. Raises DTypeError with the name of the method that needed it."""
        self._undefined()

    @property
    def requires_grad(self) -> bool | None:
        """As of any tensor."""
        flags = {half.requires_grad for half in self._halved}
        return True if True in flags else None if None in flags else False

    @requires_grad.setter
    def requires_grad(self, flag: bool | None) -> None:
        for half in self._halved:
            half.requires_grad = flag

    @property
    def grad(self) -> Any:
        """The gradients of both parts as one complex tensor; None before backward."""
        found = [half.grad for half in self._halved]
        if found == [None, None]:
            return None
        return joined(*(half.zeros_like() if g is None else g for half, g in zip(self._halved, found, strict=True)))

    @grad.setter
    def grad(self, value: Any) -> None:
        halves = (None, None) if value is None else value._cast(self.dtype)._halved
        for half, gradient in zip(self._halved, halves, strict=True):
            half.grad = gradient

    def __repr__(self) -> str:
        return f"<Tensor of {self.dtype.name} {self.shape} on {self.device} with parts {self._halved!r}>"

    def _undefined(self) -> NoReturn:
        """Raise DTypeError with the name of the method that was called from outside."""
        frame, name = sys._getframe(1), ""
        while frame is not None and frame.f_globals.get("__name__", "").startswith(_HERE):
            code, frame = frame.f_code, frame.f_back  # type: ignore[assignment]
            name = name if code is _EITHER else code.co_name
        raise DTypeError(
            f"{name} is not defined for {self.dtype}\n  made at {self._where()}\n"
            "  hint: use it on t.real, t.imag or t.abs()"
        )

    # The hooks

    def _parts(self) -> tuple[Any, ...]:
        return self._halved

    def _again(self) -> Any:
        return joined(*(half._again() for half in self._halved))

    def _wrap(self, uop: UOp, *others: TensorBase) -> Any:
        return self._halved[0]._wrap(uop, *others)

    @classmethod
    def _from(cls, node: UOp, requires_grad: bool | None = None) -> Any:
        return Tensor._from(node, requires_grad)

    def _op(self, op: Ops, *others: Any) -> Any:
        return elementwise(op, [self, *(self._operand(op, other) for other in others)])

    def _broadcasted(self, other: Any) -> Any:
        value = self._operand(Ops.ADD, other)
        dtype = _common_dtype([self, value])
        if not isinstance(value, TensorBase):
            return self._cast(dtype), self._const(value, dtype)
        self._same_device(Ops.ADD, (self, value))
        shape = broadcast_shape(self.shape, value.shape)
        if shape is None:
            return self._halved[0]._broadcasted(value._parts()[0])  # which says what does not fit
        return of_shape(self, dtype, shape), of_shape(value, dtype, shape)

    def _move(self, op: Ops, arg: Any) -> Any:
        if op is Ops.SCAN and arg.op is not Ops.ADD:
            return self._running_product(arg.axis) if arg.op is Ops.MUL else self._undefined()
        return joined(*(half._move(op, arg) for half in self._halved))

    def _join(self, op: Ops, *others: TensorBase, arg: Any = None) -> Any:
        if op is Ops.SCATTER and arg.op not in (None, Ops.ADD):
            self._undefined()
        sides = [other._parts() if other.dtype.kind == "complex" else (other, other) for other in others]
        return joined(*(half._join(op, *(s[i] for s in sides), arg=arg) for i, half in enumerate(self._halved)))

    def _reduce(self, op: Ops, axes: int | Sequence[int] | None, keepdim: bool = False) -> Any:
        if op is Ops.MUL:
            return self._product_over(self._axes(axes), keepdim)
        if op is not Ops.ADD:
            self._undefined()
        return joined(*(half._reduce(op, axes, keepdim) for half in self._halved))

    def _product_over(self, axes: tuple[int, ...], keepdim: bool) -> Any:
        """The product over axes: one half of what is left is multiplied with the other half, log2(n) times."""
        if not axes:
            return self._again()
        kept = [axis for axis in range(self.ndim) if axis not in axes]
        count = lengths.as_int(lengths.product(self.shape[a] for a in axes), "prod")
        x = self.permute(*kept, *axes).reshape(*(self.shape[a] for a in kept), count)
        while count > 1:
            half = count // 2
            last = x._part(x.ndim - 1, 2 * half, count)
            x = x._part(x.ndim - 1, 0, half) * x._part(x.ndim - 1, half, 2 * half)
            x, count = (x.cat(last, dim=-1), half + 1) if count % 2 else (x, half)
        x = x.squeeze(-1) if count else x._const(1.0)._reduce(Ops.ADD, -1) + 1.0
        return x.reshape(tuple(1 if a in axes else size for a, size in enumerate(self.shape))) if keepdim else x

    def _running_product(self, axis: int) -> Any:
        """The product of the elements up to each: every one is multiplied with that 1, 2, 4, ... places before it."""
        x, step = self, 1
        length = lengths.as_int(self.shape[axis], "cumprod")
        while step < length:
            before = x._part(axis, 0, length - step)
            x = x._part(axis, 0, step).cat(x._part(axis, step, length) * before, dim=axis)
            step *= 2
        return x._again()

    def _cast(self, dtype: DTypeLike) -> Any:
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
        of = dtype or _common_dtype([self, value])
        return constant(self, value, of) if of.kind == "complex" else self._halved[0]._const(value, of)

    def _is_data(self) -> bool:
        return False

    def _is_float(self) -> bool:
        self._undefined()

    def _in_float(self) -> NoReturn:
        self._undefined()

    def _in_field(self) -> Any:
        return self

    def _narrowed(self, like: DType) -> Any:
        return self

    def _real(self) -> Tensor:  # type: ignore[override]
        return self._halved[0]

    def _conj(self) -> Any:
        return joined(self._halved[0], -self._halved[1])

    # Reading

    def _stored(self) -> Any:
        return self.view_as_real()._stored()

    def _numbers(self) -> list[Any]:
        self.realize()
        return list(map(complex, *(half._numbers() for half in self._halved)))

    def numpy(self) -> ndarray[Any, Any]:
        """The values as a numpy array of its own memory.

        >>> from tinygraft import Tensor
        >>> Tensor([1 + 2j]).numpy()
        array([1.+2.j], dtype=complex64)
        """
        import numpy as np

        self.realize()
        found = np.empty(self.shape, self.dtype.name)
        found.real, found.imag = (half.numpy() for half in self._halved)
        return found

    def data(self) -> memoryview:
        """Raises DTypeError: memoryview has no complex numbers."""
        raise DTypeError(f"memoryview has no format for {self.dtype}\n  hint: t.view_as_real().data() gives its parts")

    def __complex__(self) -> complex:
        return complex(self.item())

    def __int__(self) -> int:
        self._undefined()

    def __float__(self) -> float:
        self._undefined()

    def __dlpack__(
        self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:  # fmt: skip
        """A copy as a DLPack capsule: the parts lie apart. Raises BufferError for copy=False."""
        from tinygraft.tensor import dlpack

        if copy is False:
            raise BufferError(
                "the real and imaginary parts of this tensor lie apart: it has to be copied, which copy=False forbids\n"
                f"  made at {self._where()}"
            )
        here = self.__dlpack_device__()
        if dl_device is not None and tuple(dl_device) != here:
            raise BufferError(f"{self.device} shares its memory as DLPack device {here}, asked for {dl_device}")
        view = self.view_as_real()._shared()
        return dlpack.make(view, self.dtype, tuple(self.shape), (max_version or (0, 0))[0] >= 1)

    # When and where values are computed

    def realize(self, *others: TensorBase, do_update_stats: bool = True) -> Any:
        """Compute this tensor and others now, and keep the results."""
        self._halved[0].realize(self._halved[1], *others)
        return self

    def schedule_with_vars(self, *others: TensorBase) -> Any:
        """The calls that would compute this tensor and others, in order, and the values of bound variables."""
        return self._halved[0].schedule_with_vars(self._halved[1], *others)

    def __copy__(self) -> Any:
        new = object.__new__(ComplexTensor)
        new._halved, new._made = (self._halved[0].__copy__(), self._halved[1].__copy__()), self._made
        return new

    def __reduce__(self) -> tuple[Any, ...]:
        return joined, self._halved

    def requires_grad_(self, requires_grad: bool | None = True) -> Any:
        """Set whether backward fills grad; None lets backward choose."""
        for half in self._halved:
            half.requires_grad_(requires_grad)
        return self

    def _value_for(self, x: Any) -> TensorBase:
        if not isinstance(x, TensorBase):
            return of_shape(Tensor(x, device=self.device, dtype=self.dtype), self.dtype, self.shape)  # type: ignore[no-any-return]
        return super()._value_for(x)

    def assign(self, x: Any) -> Any:
        """Give this tensor a new value of the same shape and dtype, as of any tensor."""
        value = self._value_for(x)
        for half, new in zip(self._halved, value._parts(), strict=True):
            half.assign(new)
        return self

    def replace(self, x: TensorBase) -> Any:
        """Let this tensor be x from now on; the shapes have to agree, and x to be complex."""
        for half, new in zip(self._halved, x._cast(self.dtype)._parts(), strict=True):
            half.replace(new)
        return self

    def __setitem__(self, indices: Any, value: Any) -> None:
        made = value if isinstance(value, TensorBase) else Tensor(value, device=self.device)
        for half, new in zip(self._halved, made._cast(self.dtype)._parts(), strict=True):
            half[indices] = new

    def _become(self, moved: TensorBase) -> Any:
        for half, new in zip(self._halved, moved._parts(), strict=True):
            half._become(new)
        return self

    @property
    def sharding(self) -> tuple[int, tuple[int, ...]] | None:
        """How the parts are cut."""
        return self._halved[0].sharding

    __getitem__, contiguous, clone, detach = (
        _partwise(name) for name in ("__getitem__", "contiguous", "clone", "detach")
    )
    contiguous_backward, to, shard = (_partwise(name) for name in ("contiguous_backward", "to", "shard"))

    # Gradients

    def _against(self, what: str, gradient: Any) -> Tensor:
        """The real number of which the gradients are those of this tensor with a gradient of its own."""
        if gradient is None:
            raise DTypeError(
                f"{what} of complex numbers needs gradient=, a tensor of their shape: only a real number has a "
                f"gradient of its own\n  made at {self._where()}\n"
                "  hint: make it real first, as in t.abs().square().sum()"
            )
        start = gradient if isinstance(gradient, TensorBase) else self._const(gradient, self.dtype)
        if start.shape != self.shape:
            raise ShapeError(
                f"{what} of shape {self.shape} got a gradient of shape {start.shape}: they must be equal\n"
                f"  made at {self._where()}      gradient made at {start._where()}"
            )
        a, b = self._halved
        c, d = start._cast(self.dtype)._parts()
        total: Tensor = (a * c + b * d).sum()
        return total

    def backward(self, gradient: Any = None, retain_graph: bool = False) -> Any:
        """Add the gradients of sum(real * gradient.real + imag * gradient.imag) to .grad, as of any tensor."""
        self._against("backward", gradient).backward()
        return self

    def gradient(self, *targets: TensorBase, gradient: Any = None) -> list[Any]:
        """The gradients of this tensor, weighted by gradient as in backward, with respect to targets."""
        return self._against("gradient", gradient).gradient(*targets)

    # Parts

    def abs(self) -> Any:
        """The magnitudes, which are real; the gradient at 0 is 0."""
        a, b = self._halved
        nothing = arithmetic.is_zero(Pair(a, b))
        return nothing.where(0.0, nothing.where(1.0, a).hypot(b))

    def angle(self) -> Any:
        """The angles in radians, from -pi to pi."""
        return self._halved[1].atan2(self._halved[0])

    def sign(self) -> Any:
        """Divided by their magnitudes; 0 for 0."""
        size = self.abs().detach() if self.requires_grad is False else self.abs()
        nothing = size == 0
        return nothing.where(0.0, self) / nothing.where(1.0, size)

    def _ranks(self) -> Any:
        """By the real and then the imaginary part, for unique."""
        return self.view_as_real().flatten(1)._ranks()

    def _halves(self) -> Any:
        return self._halved

    # Arithmetic that has a form of its own

    def _product(self, x: Any, dtype: DTypeLike | None) -> Any:
        to = promote(self.dtype, x.dtype) if dtype is None else to_dtype(dtype)
        (a, b), (c, d) = self._cast(to)._halved, x._cast(to)._halved
        return joined(a._product(c, None) - b._product(d, None), a._product(d, None) + b._product(c, None))

    def _const_power(self, x: int | float) -> Any:
        power = abs(x)
        if power == 0.5:
            found = self._op(Ops.SQRT)
        elif power <= 64 and power == int(power):
            found = self._multiplied_out(int(power))
        else:
            return self._op(Ops.POW, x)
        return found if x >= 0 else found._op(Ops.RECIPROCAL)

    def isclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
        """Whether |self - other| <= atol + rtol * |other|; NaN is close to NaN only if equal_nan."""
        if rtol < 0 or atol < 0:
            raise ValueError(f"isclose needs tolerances of at least 0, got rtol={rtol} and atol={atol}")
        a, b = self._broadcasted(other)
        close = (a == b) | ((a - b).abs() <= b.abs() * rtol + atol) & b.isfinite()
        return close | (a.isnan() & b.isnan()) if equal_nan else close

    def isnan(self) -> Any:
        """Whether a part is not a number."""
        return self._halved[0].isnan() | self._halved[1].isnan()

    def isinf(self, detect_positive: bool = True, detect_negative: bool = True) -> Any:
        """Whether a part is infinite."""
        return self._halved[0].isinf() | self._halved[1].isinf()

    def isfinite(self) -> Any:
        """Whether both parts are finite."""
        return self._halved[0].isfinite() & self._halved[1].isfinite()

    def sinc(self) -> Any:
        """sin(pi x) / (pi x), 1 at zero."""
        zero = self == 0
        x = zero.where(1.0, self) * math.pi
        return zero.where(1.0 - self * self, x.sin() / x)

    def _sigmoid(self) -> Any:
        return of_pair(_SIGMOID(Pair(*self._halved)))

    def ldexp(self, exponent: Any) -> Any:
        """self * 2**exponent."""
        power = self._other(exponent)
        return self * (power if power.is_complex() else power._cast(part_of(self.dtype))).exp2()

    def logaddexp(self, other: Any) -> Any:
        """log(exp(self) + exp(other)), without overflow: the larger one, and the principal value of what it grows by."""
        a, b = self._broadcasted(other)
        less = a.real < b.real
        large, small = less.where(b, a), less.where(a, b)
        apart = (large == small).where(0.0, small - large)  # also of two equal infinities
        return large + apart.exp().log1p()

    round = _partwise("round")
    exp, expm1, log, log1p, log10 = (_analytic(name) for name in ("exp", "expm1", "log", "log1p", "log10"))
    cos, tan, sinh, cosh, tanh = (_analytic(name) for name in ("cos", "tan", "sinh", "cosh", "tanh"))
    asin, acos, atan, asinh, acosh, atanh = (
        _analytic(name) for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")
    )
