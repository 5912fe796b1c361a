"""The properties of a complex tensor, reading it, when and where its values are computed, and its gradients.

Each is done to both parts, and the results are joined. The gradient of a complex tensor has that of the real parts as
real parts and that of the imaginary ones as imaginary parts, which is what PyTorch gives: a step against it lowers the
loss.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import TYPE_CHECKING, Any, NoReturn

from tinygraft.device.registry import Device
from tinygraft.dtype import DType, complex_of
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.data.from_python import refuse_nothing
from tinygraft.tensor.data.sharing import lent_memory
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.state.strides import StridedLayout, row_major
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.sizes import Shape
from tinygraft.uop.uop import Place, UOp

if TYPE_CHECKING:
    from numpy import ndarray

_HERE = "tinygraft.tensor."  # the package whose functions a message looks through


def _wrappers(method: Any) -> Iterator[CodeType]:
    """Yield the code of each function that stands around a method."""
    while hasattr(method, "__wrapped__"):
        yield method.__code__
        method = method.__wrapped__


# what stands around methods: templates, the aliases of parameters, and AUTOCAST
_AROUND = {*_wrappers(Tensor.sum), *_wrappers(Tensor.matmul)}


def partwise(name: str) -> Callable[..., Any]:
    """Return a method that is the method of that name of both parts, joined."""
    method = type.__getattribute__(Tensor, name)

    @functools.wraps(method)
    def each(self: ComplexAccess, *args: Any, **kwargs: Any) -> Any:
        real, imaginary = (
            self._halved
        )  # called from here, not from a generator: storage.py looks at the calling functions
        return self._in_parts().joined(method(real, *args, **kwargs), method(imaginary, *args, **kwargs))

    return each


class ComplexAccess(Tensor):
    """Properties, reads, and the methods that say when and where values exist, for two tensors in one."""

    __slots__ = ("_halved",)
    _halved: tuple[Tensor, Tensor]

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
        """The name of the device of both parts, or a tuple of several."""
        return self._halved[0].device

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return self._halved[0].ndim

    @property
    def uop(self) -> UOp:
        """There is none. Raises DTypeError with the name of the method that needed it."""
        self._undefined()

    @uop.setter
    def uop(self, uop: UOp) -> None:
        self._undefined()

    @property
    def requires_grad(self) -> bool | None:
        """Whether backward fills `grad`: True where that is so of a part, None where backward chooses."""
        flags = {half.requires_grad for half in self._halved}
        return True if True in flags else None if None in flags else False

    @requires_grad.setter
    def requires_grad(self, flag: bool | None) -> None:
        for half in self._halved:
            half.requires_grad = flag

    def _set_flag(self, requires_grad: bool | None) -> None:
        """Set the flag of both parts."""
        for half in self._halved:
            half._set_flag(requires_grad)

    @property
    def grad(self) -> Any:
        """The gradients of both parts as one complex tensor; None before backward."""
        found = [half.grad for half in self._halved]
        if found == [None, None]:
            return None
        given = (half.zeros_like() if g is None else g for half, g in zip(self._halved, found, strict=True))
        return self._in_parts().joined(*given)

    @grad.setter
    def grad(self, value: Any) -> None:
        halves = (None, None) if value is None else value._cast(self.dtype)._halved
        for half, gradient in zip(self._halved, halves, strict=True):
            half.grad = gradient

    def _undefined(self) -> NoReturn:
        """Raise DTypeError with the name of the method that was called from outside."""
        frame, name = sys._getframe(1), ""
        while frame is not None and frame.f_globals.get("__name__", "").startswith(_HERE):
            code, frame = frame.f_code, frame.f_back  # type: ignore[assignment]
            name = name if code in _AROUND else code.co_name
        raise DTypeError(
            f"{name} is not defined for {self.dtype}\n  made at {self._where()}\n"
            "  hint: use it on t.real, t.imag or t.abs()"
        )

    # Reading

    def _stored(self) -> Any:
        """Return the memory of the elements, real and imaginary parts in turn."""
        return self.view_as_real()._stored()

    def _numbers(self) -> list[Any]:
        """Return the elements as Python complex numbers, in row-major order."""
        self.realize()
        return list(map(complex, *(half._numbers() for half in self._halved)))

    def item(self) -> Any:
        """The one element as a Python complex. Raises ShapeError when there are more or none."""
        return complex(*(half.item() for half in self._halved))

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

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> ndarray[Any, Any]:
        import numpy as np

        found = self.numpy()
        if dtype is None:
            return found
        if np.dtype(dtype).kind not in "cbO":
            raise DTypeError(
                f"an array of {dtype} would lose the imaginary parts of {self.dtype}\n  made at {self._where()}"
            )
        return found.astype(dtype)

    def _memory(self) -> None:
        """Return None: there is no one memory of a complex tensor."""

    def data(self) -> memoryview:
        """Raises DTypeError: memoryview has no complex numbers."""
        raise DTypeError(f"memoryview has no format for {self.dtype}\n  hint: t.view_as_real().data() gives its parts")

    def __int__(self) -> int:
        self._undefined()

    def __float__(self) -> float:
        self._undefined()

    def __dlpack__(
        self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:  # fmt: skip
        """A copy as a DLPack capsule, since the parts are in separate memory. Raises BufferError for copy=False."""
        from tinygraft.tensor.data import dlpack, on_device

        if copy is False:
            raise BufferError(
                "the real and imaginary parts of this tensor are in separate memory: it has to be copied, which "
                "copy=False forbids\n"
                f"  made at {self._where()}"
            )
        here = on_device.asked_for(self, self.__dlpack_device__(), dl_device, copy)
        on_device.check_stream(stream)
        real, shape, versioned = self.view_as_real(), tuple(self.shape), (max_version or (0, 0))[0] >= 1
        layout = StridedLayout(0, shape, row_major(shape))
        if here[0] == dlpack.HOST:
            return dlpack.make(lent_memory(real)[0], self.dtype, layout, versioned)
        return dlpack.make_on(here, on_device.lent(real, stream)[0], self.dtype, layout, versioned)

    # When and where values are computed

    def realize(self, *others: TensorBase, do_update_stats: bool = True) -> Any:
        """Compute this tensor and others now, and keep the results; return this one."""
        self._halved[0].realize(self._halved[1], *others)
        return self

    def schedule_with_vars(self, *others: TensorBase) -> Any:
        """The calls that would compute this tensor and others, in order, and the values of bound variables."""
        return self._halved[0].schedule_with_vars(self._halved[1], *others)

    def __copy__(self) -> Any:
        new = object.__new__(type(self))
        new._halved, new._made = (self._halved[0].__copy__(), self._halved[1].__copy__()), self._made
        return new

    def __reduce__(self) -> tuple[Any, ...]:
        return self._in_parts().joined, self._halved

    def requires_grad_(self, requires_grad: bool | None = True) -> Any:
        """Set whether backward fills grad, None lets backward choose; return this tensor."""
        for half in self._halved:
            half.requires_grad_(requires_grad)
        return self

    def _value_for(self, x: Any) -> TensorBase:
        """Return what is assigned as a complex tensor of this shape, dtype and device."""
        refuse_nothing(x, self._where)
        if not isinstance(x, TensorBase):
            return self._in_parts().of_shape(Tensor(x, device=self.device, dtype=self.dtype), self.dtype, self.shape)  # type: ignore[no-any-return]
        return super()._value_for(x)

    def assign(self, x: Any) -> Any:
        """Give this tensor a new value of the same shape and dtype, as `assign` of any tensor; return it."""
        value = self._value_for(x)
        for half, new in zip(self._halved, value._parts(), strict=True):
            half.assign(new)
        return self

    def replace(self, x: TensorBase) -> Any:
        """Let this tensor be `x` from now on, and return it.

        Raises DTypeError for a real one, ShapeError for another shape.
        """
        if x.dtype.kind != "complex":
            raise DTypeError(f"cannot replace a complex tensor by one of {x.dtype}\n  made at {x._where()}")
        for half, new in zip(self._halved, x._parts(), strict=True):
            half.replace(new)
        return self

    def __setitem__(self, indices: Any, value: Any) -> None:
        """Write a value, cast to this dtype, to the elements at `indices`. Raises DTypeError for None."""
        refuse_nothing(value, self._where)
        made = value if isinstance(value, TensorBase) else Tensor(value, device=self.device)
        for half, new in zip(self._halved, made._cast(self.dtype)._parts(), strict=True):
            half[indices] = new

    def _become(self, moved: TensorBase) -> Any:
        """Make this tensor what `moved` is, both parts, and return it."""
        for half, new in zip(self._halved, moved._parts(), strict=True):
            half._become(new)
        return self

    @property
    def sharding(self) -> tuple[int, tuple[int, ...]] | None:
        """The axis and the sizes by which the parts are cut over devices; None where they are not."""
        return self._halved[0].sharding

    __getitem__, contiguous, clone, detach = (
        partwise(name) for name in ("__getitem__", "contiguous", "clone", "detach")
    )
    contiguous_backward, shard, _moved = (partwise(name) for name in ("contiguous_backward", "shard", "to"))

    def to(self, device: Any) -> Any:
        """The values on a device, or on several; this tensor itself where they are there already."""
        return self if Device.canonicalize(device) == self.device else self._moved(device)

    # Gradients

    def _against(self, what: str, gradient: Any) -> Tensor:
        """Return the real number of which the gradients are those of this tensor with a gradient of its own.

        `what` names the method. Raises DTypeError without a gradient, ShapeError for one of another shape.
        """
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
        """Add the gradients of sum(real * gradient.real + imag * gradient.imag) to .grad, as of any tensor.

        `gradient` is a number or a tensor of this shape; DTypeError without one, ShapeError for another shape.
        """
        self._against("backward", gradient).backward()
        return self

    def gradient(self, *targets: TensorBase, gradient: Any = None) -> list[Any]:
        """The gradients of this tensor with respect to `targets`, weighted by `gradient` as in backward.

        Raises as backward.
        """
        return self._against("gradient", gradient).gradient(*targets)
