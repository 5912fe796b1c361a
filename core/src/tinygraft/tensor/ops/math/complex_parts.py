"""Parts of complex numbers: real, imag, conj, angle, and views as pairs of floats. Real tensors have them too."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.movement import sliced

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def sgn(self: Tensor) -> Tensor:
    """sign, by its other name; of complex numbers each over its magnitude."""
    return self.sign()


def real(self: Tensor) -> Tensor:
    """The real parts: the numbers themselves where they are not complex.

    >>> from tinygraft import Tensor
    >>> Tensor([1 + 2j, 3.0]).real.tolist()
    [1.0, 3.0]
    """
    return self._parts()[0]._again()  # type: ignore[no-any-return]


def set_real(self: Tensor, value: Any) -> None:
    """Write `value`, a tensor, number or list that broadcasts, into the real parts. Raises as __setitem__ does."""
    self._parts()[0][...] = value


def imag(self: Tensor) -> Tensor:
    """The imaginary parts: zeros of this dtype where the numbers are not complex.

    Raises DTypeError when one of these is set.

    >>> from tinygraft import Tensor
    >>> z = Tensor([1 + 2j, 3.0])
    >>> z.imag += 1
    >>> z.tolist()
    [(1+3j), (3+1j)]
    """
    return self._parts()[1]._again() if self.is_complex() else self._const(0, self.dtype)


def set_imag(self: Tensor, value: Any) -> None:
    """Write `value`, a tensor, number or list that broadcasts, into the imaginary parts.

    Raises DTypeError for real numbers.
    """
    if not self.is_complex():
        raise DTypeError(f"numbers of {self.dtype} have no imaginary parts to set\n  made at {self._where()}")
    self._parts()[1][...] = value


def conj(self: Tensor) -> Tensor:
    """With the imaginary parts negated: the numbers themselves where they are not complex.

    >>> from tinygraft import Tensor
    >>> Tensor([1 + 2j]).conj().tolist()
    [(1-2j)]
    """
    return self._conj()._again()


def conj_physical(self: Tensor) -> Tensor:
    """conj, by its other name."""
    return self.conj()


def resolve_conj(self: Tensor) -> Tensor:
    """The numbers themselves: a conjugation is never left undone."""
    return self._again()


def resolve_neg(self: Tensor) -> Tensor:
    """The numbers themselves: a minus is never left undone."""
    return self._again()


def isreal(self: Tensor) -> Tensor:
    """Where the imaginary part is 0, as bools; True for all real numbers."""
    return self.imag.eq(0) if self.is_complex() else self._const(True, dtypes.bool)


def view_as_complex(self: Tensor) -> Tensor:
    """Complex numbers from a last axis of 2, which has their real and imaginary parts.

    Raises ShapeError for another one. float64 makes complex128, all else complex64. The last axis is gone.

    >>> from tinygraft import Tensor
    >>> Tensor([[1.0, 2.0], [3.0, 4.0]]).view_as_complex().tolist()
    [(1+2j), (3+4j)]
    """
    if not self.ndim or not size_math.same(self.shape[-1], 2):
        raise ShapeError(f"view_as_complex needs a last axis of 2, got shape {self.shape}\n  made at {self._where()}")
    real, imaginary = (sliced(self, self.ndim - 1, i, i + 1).squeeze(-1) for i in range(2))
    return real.complex(imaginary)


def view_as_real(self: Tensor) -> Tensor:
    """The parts of complex numbers beside each other along a last axis of 2. Raises DTypeError for real numbers.

    >>> from tinygraft import Tensor
    >>> Tensor([1 + 2j]).view_as_real().tolist()
    [[1.0, 2.0]]
    """
    if not self.is_complex():
        raise DTypeError(f"view_as_real needs complex numbers, got {self.dtype}\n  made at {self._where()}")
    return self.real.stack(self.imag, dim=-1)


def complex(self: Tensor, imag: Tensor) -> Tensor:
    """Complex numbers with this tensor as real parts and another as imaginary ones; float64 makes complex128.

    Both are tensors that broadcast; other dtypes make complex64. Raises ShapeError, DeviceError.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 2.0]).complex(Tensor([3.0, 4.0])).tolist()
    [(1+3j), (2+4j)]
    """
    return self._in_parts().joined(self._again(), imag._again())  # type: ignore[no-any-return]


def polar(self: Tensor, angle: Tensor) -> Tensor:
    """Complex numbers of which this tensor has the magnitudes, and another the angles in radians; both broadcast.

    Dtype and errors as in complex.

    >>> from tinygraft import Tensor
    >>> Tensor([2.0]).polar(Tensor([0.0])).tolist()
    [(2+0j)]
    """
    return (self * angle.cos()).complex(self * angle.sin())


def angle(self: Tensor) -> Tensor:
    """The angle on the complex plane, a float without a gradient: pi for what is below zero, else 0; NaN for NaN.

    >>> from tinygraft import Tensor
    >>> Tensor([-1.0, 0.0, 2.0]).angle().tolist()
    [3.1415927410125732, 0.0, 0.0]
    """
    still = self.detach()
    x = still if self._is_float() else still._cast(dtypes.default_float)
    flat = (x < 0).where(math.pi, x._const(0.0))
    return (x != x).where(x, flat)
