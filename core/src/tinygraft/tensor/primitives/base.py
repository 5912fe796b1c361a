"""TensorBase: the fields of a tensor, and the hooks by which every method builds the graph.

A method takes tensors and Python numbers, and returns a new tensor over one more node. Only the hooks `_op`, `_move`,
`_reduce`, `_cast`, `_const` and `_join` make nodes; they broadcast, promote and check, so that a mistake raises on the
user's line. All other methods are written with the hooks and with each other.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

from tinygraft import events
from tinygraft.config import PROFILE, VIZ
from tinygraft.dtype import DType, DTypeLike, dtypes, promote, promote_scalar, to_dtype
from tinygraft.engine.exclusive import import_late
from tinygraft.errors import AxisError, DeviceError, DTypeError, NumberOutOfRange, ShapeError
from tinygraft.helpers import line_in
from tinygraft.tensor.data.from_python import warn_of_gradient
from tinygraft.tensor.primitives import size_checks
from tinygraft.tensor.primitives.broadcasting import Scalar, broadcast_shape, expand, number_node, on_device, symbols
from tinygraft.tensor.primitives.number_range import beyond, hint, wrapped
from tinygraft.tensor.state import no_grad
from tinygraft.tensor.state.live import LiveEntry, enter, entry_of, note_touched, wake
from tinygraft.tensor.state.made_at import Made, file_and_line, here
from tinygraft.tensor.state.storage import SharedStorage, alias, is_declared
from tinygraft.tensor.state.view_steps import MOVES, Steps
from tinygraft.uop.held import PLAIN
from tinygraft.uop.index import bounds_of, settled
from tinygraft.uop.ops import COMPARE, FACTS, FLOAT, Ops, ReduceArg
from tinygraft.uop.sharding import OF_RANK
from tinygraft.uop.show import show_arg
from tinygraft.uop.sizes import Shape, is_concrete, is_size
from tinygraft.uop.uop import Place, UOp

FLOAT_ONLY = frozenset(op for op, facts in FACTS.items() if facts.kinds == FLOAT) - {Ops.FMA}
BITWISE = frozenset({Ops.AND, Ops.OR, Ops.XOR, Ops.NOT, Ops.SHL, Ops.SHR})
CLOSED = frozenset({Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.MIN})  # every dtype has them, and they keep it
INTEGER_ONLY = frozenset({Ops.IDIV, Ops.MOD, Ops.SHL, Ops.SHR})
NO_FLOATS = BITWISE | INTEGER_ONLY
CONVERTS = FLOAT_ONLY | INTEGER_ONLY  # whose operands may become another dtype first
_VERBS = {
    Ops.ADD: "add", Ops.SUB: "subtract", Ops.MUL: "multiply", Ops.FDIV: "divide", Ops.IDIV: "floor-divide",
    Ops.MOD: "take the remainder of", Ops.FMOD: "take the remainder of",
    Ops.MAX: "take the maximum of", Ops.MIN: "take the minimum of",
    Ops.POW: "take the power of", Ops.CMPLT: "compare", Ops.CMPEQ: "compare", Ops.CMPNE: "compare",
    Ops.AND: "take the bits in both of",
    Ops.OR: "take the bits in any of", Ops.XOR: "take the bits in one of", Ops.SHL: "shift", Ops.SHR: "shift",
    Ops.WHERE: "choose between", Ops.EXPAND: "combine",
    Ops.FMA: "multiply and add", Ops.NOT: "invert", Ops.NEG: "negate",
}  # fmt: skip


def verb(op: Ops) -> str:
    """Return what an op does, as a word in an error message."""
    return _VERBS.get(op, f"apply {op.name} to")


def _give_node(tensor: TensorBase, uop: UOp) -> None:
    """Set the node of a tensor, and list it as awake (live.py)."""
    wake(tensor)  # before: a signal may end this after the next line, and live.py would miss an expression at rest
    tensor._node = uop
    wake(tensor)  # and after: another thread may have put it to rest meanwhile


def _require_grad(tensor: Any, requires_grad: bool | None) -> None:
    """Do what `requires_grad_` does."""
    tensor.requires_grad_(requires_grad)


def _give_grad(tensor: TensorBase, grad: TensorBase | None) -> None:
    """Set the gradient of a tensor; TinyJit is told.

    Raises DTypeError for what is no tensor and not None, ShapeError for another shape than the tensor's.
    """
    if grad is not None and not isinstance(grad, TensorBase):
        raise DTypeError(f"grad is a tensor or None, got {grad!r}\n  made at {tensor._where()}\n  hint: Tensor(x)")
    if grad is not None and grad.shape != tensor.shape:
        raise ShapeError(
            f"grad has the shape of its tensor, {tensor.shape}, got {grad.shape}\n  tensor made at {tensor._where()}"
            f"\n  grad made at {grad._where()}"
        )
    tensor._grad = grad
    note_touched("grads", tensor)


class TensorBase:
    """The fields of a tensor and the hooks. `Tensor` adds the methods, one file of them per theme.

    uop is the node whose value this is. requires_grad is True, False or None (backward decides); grad is filled
    by backward. made_at is the (file, line) of the user's code that made this tensor.
    """

    __slots__ = (
        "__weakref__",
        "_chain",
        "_computed",
        "_grad",
        "_lender",
        "_made",
        "_node",
        "_requires_grad",
        "_storage",
        "_wrote",
    )
    _grad: TensorBase | None
    _node: UOp
    _requires_grad: bool | None
    _lender: LiveEntry | None  # the tensor whose node this one was given, and whose memory it may have
    _computed: bool  # whether it was a computed value, and no leaf, when it was first written to
    _made: Made
    _wrote: Made | None  # where it was last written to
    _storage: SharedStorage | None
    _chain: Steps  # from the whole of the storage; not set without a storage

    if TYPE_CHECKING:

        @property
        def uop(self) -> UOp: ...  # noqa: D102
        @uop.setter
        def uop(self, uop: UOp) -> None: ...
        @property
        def requires_grad(self) -> bool | None: ...  # noqa: D102
        @requires_grad.setter
        def requires_grad(self, requires_grad: bool | None) -> None: ...
        @property
        def grad(self) -> Self | None: ...  # noqa: D102
        @grad.setter
        def grad(self, grad: TensorBase | None) -> None: ...
    else:  # attrgetter reads in C: every method reads uop, and most read requires_grad
        uop = property(attrgetter("_node"), _give_node, doc="The node whose value this is.")
        requires_grad = property(
            attrgetter("_requires_grad"), _require_grad, doc="True, False, or None: backward decides."
        )
        grad = property(attrgetter("_grad"), _give_grad, doc="The gradient that backward has added up; None before.")

    def _set_flag(self, requires_grad: bool | None) -> None:
        """Set the flag alone, and list the tensor as awake before and after, as `_give_node` does.

        For a new tensor whose node is made for it: `requires_grad_` gives it a node for the flag, this does not.
        """
        wake(self)
        self._requires_grad = requires_grad
        wake(self)
        note_touched("flags", self)

    def _set(self, uop: UOp, requires_grad: bool | None, made: Made | None = None) -> None:
        """Fill the fields of a new tensor, and list it among the live ones.

        `made` is the line that made it, if known.
        """
        self._node, self._requires_grad, self._grad = uop, requires_grad, None
        self._storage, self._lender, self._computed, self._wrote = None, None, False, None
        self._made = made or here()
        if events.origins is not None:
            events.origins.note(uop, self._made)
        enter(self)

    def _wrap(self, uop: UOp, *others: TensorBase) -> Self:
        """Return a new tensor over `uop`, which is computed from this one and `others`.

        It requires a gradient if one of them does. In a no_grad block it is detached, and its flag is False.
        """
        flag = self.requires_grad
        for other in others:
            if flag is not True and other.requires_grad is not False:
                flag = other.requires_grad
        if no_grad.here.blocks and no_grad.is_quiet():
            uop, flag = no_grad.cut(uop), False
        new = object.__new__(type(self))
        new._set(uop, flag)
        # its memory may be that of this tensor: a write to it may not reach this one (`borrows` in live.py)
        if uop is self._node or (uop.op in PLAIN and uop.src[0] is self._node):
            new._lender = self._lender or entry_of(self)
        return new

    def _again(self) -> Self:
        """Return a new tensor of the same values; a view if the user called for one."""
        node = self.uop
        return self._viewed(node, node)

    def _viewed(self, node: UOp, old: UOp) -> Self:
        """Return a tensor over `node`, made by movements of `old`, the node of this one; a view where `is_declared`."""
        view = self._wrap(node)
        if is_declared(view):
            alias(self, view, node, old)
        return view

    def _parts(self) -> tuple[Any, ...]:
        """Return the tensors over one node each that this one is made of: itself, or the parts of complex numbers."""
        return (self,)

    @staticmethod
    def _in_parts() -> ModuleType:
        """Return the module for complex numbers, imported when the first ones are made."""
        return import_late("tinygraft.tensor.complex.complex_tensor")

    # What is known without computing

    @property
    def made_at(self) -> tuple[str, int]:
        """(file, line) of the user's code that made this tensor."""
        code, instruction, _, _ = self._made
        return code.co_filename, line_in(code, instruction)

    @property
    def shape(self) -> Shape:
        """The length of each axis: ints, or nodes where a size is symbolic."""
        return self.uop.shape

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.uop.dtype

    @property
    def device(self) -> Place:
        """The name of the device of the values, computed or not; a tuple of names where they are on several."""
        return self.uop.device or ""

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.uop.shape)

    def _axis(self, axis: int, extra: int = 0) -> int:
        """Return `axis` counted from the front, where -1 is the last; `extra` axes are about to be added.

        Raises AxisError for one that does not exist, DTypeError for what is no integer.
        """
        ndim = self.ndim + extra
        if not isinstance(axis, int):
            axis = self._integer(axis)
        if not -ndim <= axis < max(ndim, 1) and not (ndim == 0 and axis == -1):
            choice = f"choose from {-ndim} to {ndim - 1}" if ndim else "it has none"
            raise AxisError(f"axis {axis} is not an axis of shape {self.shape}: {choice}\n  made at {self._where()}")
        return axis % ndim if ndim else 0

    def _integer(self, axis: Any) -> int:
        """Return an axis that is not an int as one, such as numpy's integers.

        Raises DTypeError for what is no integer.
        """
        try:
            return operator.index(axis)
        except (TypeError, ShapeError):  # a tensor of several elements, too
            raise DTypeError(
                f"an axis is an integer, got {axis!r} for shape {self.shape}\n  made at {self._where()}"
            ) from None

    def _axes(self, axis: int | Sequence[int] | None) -> tuple[int, ...]:
        """Return one axis, several, or all for None, as a sorted tuple counted from the front.

        Raises AxisError and DTypeError as `_axis` does, ShapeError for an axis that is named twice.
        """
        if axis is None:
            return tuple(range(self.ndim))
        axes = tuple(self._axis(a) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
        if len(set(axes)) != len(axes):
            raise ShapeError(
                f"each axis can be named once, got {axis} for shape {self.shape}\n  made at {self._where()}"
            )
        return tuple(sorted(axes)) if self.ndim else ()

    def _where(self) -> str:
        """Return the line that made this tensor, short enough for a message."""
        return file_and_line(self._made)

    # The hooks

    def _op(self, op: Ops, *others: Any) -> Self:
        """Return an elementwise op of this tensor and others (tensors, numbers, anything that a Tensor is made of).

        Operands are broadcast together and promoted by the lattice of dtype.py, where a Python number is weak.
        Comparisons give bool; ints and bools become the default float for an op that only floats have.

        Raises ShapeError, DTypeError, DeviceError.
        """
        uop = self.uop
        # the two cases of most calls first, without the loops of `_general`: operands alike, and a number
        if len(others) == 1:
            other = others[0]
            if type(other) is type(self):
                node = other.uop
                if node.dtype is uop.dtype and node.device == uop.device:
                    shape = uop.shape if node.shape == uop.shape else broadcast_shape(uop.shape, node.shape)
                    if shape is not None and (op not in CONVERTS or uop.dtype.kind == "float"):
                        if op in NO_FLOATS:
                            self._check_dtype(op, uop.dtype)
                        dtype = dtypes.bool if op in COMPARE else uop.dtype
                        left = uop if uop.shape == shape else expand(uop, shape)
                        right = node if node.shape == shape else expand(node, shape)
                        return self._wrap(UOp(op, dtype, (left, right)), other)
            elif (
                (kind := type(other)) in (int, float)
                and ((is_float := uop.dtype.kind == "float") or (kind is int and uop.dtype.kind in ("int", "uint")))
                and (op in CLOSED or (is_float and op in FLOAT_ONLY))
            ):  # as `promote_scalar` has it, the dtype stays
                return self._wrap(UOp(op, uop.dtype, (uop, self._number(other, uop.dtype, uop.shape))))
        if not others:
            if op in NO_FLOATS:
                self._check_dtype(op, uop.dtype)
            if op in FLOAT_ONLY and uop.dtype.kind != "float":
                uop = uop.cast(dtypes.default_float)
            return self._wrap(UOp(op, uop.dtype, (uop,)))
        return self._general(op, others)

    def _general(self, op: Ops, others: tuple[Any, ...]) -> Self:
        """Return `op` of this tensor and `others`, promoted and broadcast: the general case of `_op`.

        WHERE needs a bool in this tensor. Complex operands are computed in their two parts. A comparison with a
        number that the dtype cannot represent is a constant. Raises as `_op` does.
        """
        uop = self.uop
        operands = [self, *(self._operand(op, other) for other in others)]
        tensors = [operand for operand in operands if isinstance(operand, TensorBase)]
        self._same_device(op, tensors)
        values = operands[1:] if op is Ops.WHERE else operands
        dtype = common_dtype(values)
        if dtype.kind == "complex":
            return self._in_parts().elementwise(op, operands)  # type: ignore[no-any-return]
        if op in COMPARE and (side := self._beyond(others[0])):  # as NumPy 2: compared by value, it does not wrap
            return self._const(op is Ops.CMPNE or (op is Ops.CMPLT and side > 0), dtypes.bool)
        if op is Ops.WHERE:
            if self.dtype is not dtypes.bool:
                raise DTypeError(
                    f"where needs a condition of bool, got {self.dtype}\n  made at {self._where()}\n"
                    "  hint: compare first, as in (t != 0).where(a, b)"
                )
        elif op in FLOAT_ONLY and dtype.kind != "float":
            dtype = dtypes.default_float
        elif op in INTEGER_ONLY and dtype is dtypes.bool:
            dtype = dtypes.default_int
        self._check_dtype(op, dtype)
        shape = _common_shape(op, tensors)
        src = []
        for index, operand in enumerate(operands):
            of = dtypes.bool if op is Ops.WHERE and index == 0 else dtype
            if isinstance(operand, TensorBase):
                src.append(expand(operand.uop.cast(of), shape))
            else:
                if op in BITWISE and isinstance(operand, int) and of.kind in ("int", "uint"):
                    operand = wrapped(op, operand, of, index == 1)
                bits = op in BITWISE and isinstance(operand, UOp)  # a symbolic integer wraps here, as a number does
                src.append(number_node(operand, of, uop.device, shape) if bits else self._number(operand, of, shape))
        node = UOp(op, dtypes.bool if op in COMPARE else dtype, tuple(src))
        return self._wrap(node, *tensors[1:])

    def _operand(self, op: Ops, value: Any) -> Any:
        """Return a tensor, a Python number or a symbolic integer as it is; lists and arrays as tensors on this device.

        Raises DTypeError for anything else; `op` is for its message.
        """
        if isinstance(value, (TensorBase, bool, int, float, complex)) or _is_symbolic(value):
            return value
        if isinstance(value, (list, tuple, UOp)) or hasattr(value, "__array__"):
            return self._of_values(value)
        raise DTypeError(
            f"cannot {verb(op)} a tensor of shape {self.shape} and {type(value).__name__}\n  made at {self._where()}"
        )

    def _argument(self, what: str, name: str, value: Any) -> Any:
        """Return an argument as a tensor: a number, a list or an array becomes one on this device.

        `what` is the name of the method, `name` that of the argument. Raises DTypeError for anything else.
        """
        if isinstance(value, TensorBase):
            return value
        if isinstance(value, (bool, int, float, complex, list, tuple, UOp)) or hasattr(value, "__array__"):
            return self._of_values(value)
        raise DTypeError(
            f"{what} needs {name} that are a tensor, numbers in a list or an array, got {value!r}\n"
            f"  beside a tensor of shape {self.shape} made at {self._where()}"
        )

    def _of_values(self, value: Any) -> Any:
        """Return numbers, a list or an array as a tensor on this device; one of PyTorch that has gradients is noted."""
        if getattr(value, "requires_grad", False) and getattr(value, "grad_fn", None) is None:
            warn_of_gradient(value)
        return type(self)(value, device=self.device)  # type: ignore[call-arg]

    def _beyond(self, value: Any) -> int:
        """Return 1 for a number above the range of this integer dtype, -1 for one below it, else 0.

        A comparison with such a number is a constant; as an operand of the dtype it raises.
        """
        return beyond(value, self.dtype)

    def _number(self, value: Any, dtype: DType, shape: Shape) -> UOp:
        """Return a number, or a symbolic integer, as a node of `shape` and `dtype` on this device.

        Raises NumberOutOfRange.
        """
        if isinstance(value, UOp):
            size_checks.require(size_checks.Fits(value, dtype, self._where()))
        try:
            return number_node(value, dtype, self.uop.device, shape)
        except NumberOutOfRange as error:
            raise NumberOutOfRange(f"{error}\n  made at {self._where()}\n{hint(value)}") from None

    def _check_dtype(self, op: Ops, dtype: DType) -> None:
        """Raise DTypeError where `op` needs integers or bools and `dtype` is one of floats."""
        if dtype.kind == "float" and op in NO_FLOATS:
            needed = "integers" if op in INTEGER_ONLY else "integers or bools"
            raise DTypeError(f"cannot {verb(op)} values of {dtype}: it needs {needed}\n  made at {self._where()}")

    def _same_device(self, op: Ops, tensors: Sequence[TensorBase]) -> None:
        """Raise DeviceError, which names both devices and where both tensors were made, unless all are on one."""
        for other in tensors[1:]:
            if other.device != self.device:
                raise DeviceError(
                    f"cannot {verb(op)} tensors on different devices, {self.device} and {other.device}\n"
                    f"  {self.device} made at {self._where()}      {other.device} made at {other._where()}\n"
                    f"  hint: {_moved(self.device, other.device)}"
                )

    def _broadcasted(self, other: Any, op: Ops = Ops.EXPAND) -> tuple[Self, Self]:
        """Return both operands with their common shape and dtype. Raises as `_op` does; `op` is for its message.

        >>> from tinygraft import Tensor
        >>> a, b = Tensor.ones(2, 1)._broadcasted(Tensor.ones(3))
        >>> a.shape, b.shape
        ((2, 3), (2, 3))
        """
        other = self._operand(op, other)
        dtype = common_dtype([self, other])
        if not isinstance(other, TensorBase):
            return self._cast(dtype), self._const(other, dtype)
        self._same_device(op, (self, other))
        shape = _common_shape(op, [self, other])
        if dtype.kind == "complex":
            return self._in_parts().of_shape(self, dtype, shape), self._in_parts().of_shape(other, dtype, shape)
        left = self._wrap(expand(self.uop.cast(dtype), shape))
        return left, self._wrap(expand(other.uop.cast(dtype), shape), other)

    def _move(self, op: Ops, arg: Any) -> Self:
        """Return a movement of this tensor, or another op with one source and an arg (SCAN, FOLD).

        A movement is a view if the user called for one. Raises ShapeError, with the line that made this tensor.
        """
        old = self.uop
        if sizes := symbols(op, arg):
            arg = settled(arg)
            sizes = symbols(op, arg)
        try:
            node = UOp(op, old.dtype, (old, *sizes), arg)
        except ShapeError as error:
            raise ShapeError(f"{error}\n  made at {self._where()}") from None
        new = self._wrap(node)
        if op in MOVES and is_declared(new):
            alias(self, new, node, old)
        return new

    def _join(self, op: Ops, *others: TensorBase, arg: Any = None) -> Self:
        """Return an op of several tensors that is not elementwise (CAT, GATHER, SCATTER), in the dtype of this one.

        Raises DeviceError, and ShapeError where the shapes do not fit.
        """
        self._same_device(op, (self, *others))
        if op is Ops.SCATTER and any(is_size(size, 0) for size in others[0].shape):
            return self._again()  # no values: a loop of no iterations could not index them
        return self._wrap(UOp(op, self.uop.dtype, (self.uop, *(other.uop for other in others)), arg), *others)

    def _reduce(self, op: Ops, axes: int | Sequence[int] | None, keepdim: bool = False) -> Self:
        """Return the reduction by `op` (ADD, MUL, MAX, ...) over `axes`; None is all of them.

        The dtype stays: cast first to accumulate wider. With `keepdim` the axes stay with size 1. Raises as `_axes`.
        """
        chosen = self._axes(axes)
        if not chosen:
            return self._again()
        node = UOp(Ops.REDUCE_AXIS, self.uop.dtype, (self.uop,), ReduceArg(op, chosen))
        if not keepdim:
            shape = tuple(size for axis, size in enumerate(node.shape) if axis not in chosen)
            node = UOp(Ops.RESHAPE, node.dtype, (node, *symbols(Ops.RESHAPE, shape)), shape)
        return self._wrap(node)

    def _cast(self, dtype: DTypeLike) -> Self:
        """Return the values as another dtype, a DType or its name. Raises DTypeError for what is none."""
        to = to_dtype(dtype)
        if to.kind == "complex":
            return self._in_parts().of_real(self, to)  # type: ignore[no-any-return]
        return self._wrap(self.uop.cast(to))

    def _const(self, value: Scalar | UOp, dtype: DType | None = None) -> Self:
        """Return `value` in this shape and on this device, in `dtype` or that of an operation of both.

        It has no gradient. Raises NumberOutOfRange.
        """
        if isinstance(value, str):  # float("1.5") would take it for a number
            raise DTypeError(f"a tensor is filled with numbers, got {value!r}\n  made at {self._where()}")
        of = dtype or common_dtype([self, value])
        if of.kind == "complex":
            return self._in_parts().constant(self, value, of)  # type: ignore[no-any-return]
        node = self._number(value, of, self.uop.shape)
        new = self._wrap(on_device(node, self.uop.device) if isinstance(value, UOp) else node)
        new._set_flag(False)
        return new


def _moved(devices: Place, other: Place) -> str:
    """Return how a tensor on `other` comes to where another one is, or the reverse, for an error."""
    if OF_RANK not in str((devices, other)):
        return f"move one of them, as in t.to({devices!r})"
    return (
        "the devices of several ranks are a Mesh: mesh.shard(t) cuts what all ranks have alike, t.to(mesh) gives each "
        "rank all of it, and mesh.replicate_(*nn.state.get_parameters(model)) parameters, in place"
    )


def _is_symbolic(value: object) -> bool:
    """Return whether `value` is a symbolic integer."""
    return isinstance(value, UOp) and value.dtype is dtypes.index


def common_dtype(operands: Sequence[Any]) -> DType:
    """Return the dtype of an operation between tensors and Python numbers, which are weak.

    A symbolic integer counts as an int. Without a tensor it is the default dtype of the numbers.
    """
    strong = [operand.dtype for operand in operands if isinstance(operand, TensorBase)]
    weak = [0 if isinstance(operand, UOp) else operand for operand in operands if not isinstance(operand, TensorBase)]
    if not strong:
        return dtypes.from_py(weak)
    dtype = promote(*strong)
    for value in weak:
        dtype = promote_scalar(dtype, value)
    return dtype


def _common_shape(op: Ops, tensors: Sequence[TensorBase]) -> Shape:
    """Return the shape of an elementwise op of tensors.

    Raises ShapeError, which names the axis that differs and both lines.
    """
    shape = tensors[0].shape
    for count, other in enumerate(tensors[1:], 1):
        if other.shape != shape:
            common = broadcast_shape(shape, other.shape)
            if common is None:
                left = next(t for t in tensors[:count] if broadcast_shape(t.shape, other.shape) is None)
                raise ShapeError(_disagreement(op, left, other))
            shape = common
    return shape


def _disagreement(op: Ops, left: TensorBase, right: TensorBase) -> str:
    """Return the message for shapes that do not broadcast: the last axis that differs, and where both were made.

    With a hint where the smaller shape equals the first axes of the larger one: one value for each row was meant.
    """
    a, b = left.shape, right.shape
    axis = next(
        axis for axis in range(-1, -min(len(a), len(b)) - 1, -1) if broadcast_shape((a[axis],), (b[axis],)) is None
    )
    text = (
        f"cannot {verb(op)} shapes {show_arg(a)} and {show_arg(b)}: axis {axis} is {show_arg(a[axis])} on the left "
        f"and {show_arg(b[axis])} on the right, and neither is 1\n"
        f"  left  made at {left._where()}      right made at {right._where()}"
    )
    if bounds := bounds_of((a[axis], b[axis])):
        text += f"\n  where {bounds}\n  hint: sizes are equal where they are made of the same variables"
    small, large, side = (b, a, "right") if len(b) <= len(a) else (a, b, "left")
    if len(small) < len(large) and is_concrete(small) and small == large[: len(small)]:
        wanted = small + (1,) * (len(large) - len(small))
        text += f"\n  hint: to give one value to each row, reshape the {side} side to {wanted}"
    return text


if VIZ or PROFILE:  # from the environment: tensors that are made before the first value is requested have lines too
    import_late("tinygraft.engine.origins").start()
