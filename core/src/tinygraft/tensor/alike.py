"""New tensors beside one that is there (new_zeros and the rest), numbers spaced by powers, and two short casts."""

from __future__ import annotations

from typing import Any, Self

from tinygraft.dtype import DTypeLike, dtypes
from tinygraft.tensor.base import Scalar
from tinygraft.tensor.operators import Operators
from tinygraft.uop.uop import Place


class Alike(Operators):
    """Methods that make tensors on the device of this one, of its dtype unless another one is given."""

    __slots__ = ()

    def new_tensor(self, data: Any, dtype: DTypeLike | None = None, device: Place = None) -> Self:
        """A tensor of data, with the dtype that data has by itself unless dtype is given."""
        return type(self)(data, device=device or self.device, dtype=dtype)  # type: ignore[call-arg]

    def new_empty(self, *size: Any, dtype: DTypeLike | None = None, device: Place = None) -> Self:
        """A tensor of that shape with whatever values memory holds."""
        return type(self).empty(*size, device=device or self.device, dtype=dtype or self.dtype)

    def new_full(self, size: Any, fill_value: Scalar, dtype: DTypeLike | None = None, device: Place = None) -> Self:
        """One number everywhere.

        >>> from tinygraft import Tensor
        >>> Tensor([1, 2]).new_full((2,), 7).tolist()
        [7, 7]
        """
        return type(self).full(size, fill_value, device=device or self.device, dtype=dtype or self.dtype)

    def new_ones(self, *size: Any, dtype: DTypeLike | None = None, device: Place = None) -> Self:
        """Ones."""
        return type(self).ones(*size, device=device or self.device, dtype=dtype or self.dtype)

    def new_zeros(self, *size: Any, dtype: DTypeLike | None = None, device: Place = None) -> Self:
        """Zeros."""
        return type(self).zeros(*size, device=device or self.device, dtype=dtype or self.dtype)

    @classmethod
    def scalar_tensor(cls, s: Scalar, dtype: DTypeLike | None = None, device: Place = None) -> Self:
        """A number as a tensor without axes, of the default float dtype unless dtype says otherwise."""
        return cls(s, device=device, dtype=dtype or dtypes.default_float())  # type: ignore[call-arg]

    @classmethod
    def logspace(
        cls, start: Scalar, end: Scalar, steps: int, base: float = 10.0, dtype: DTypeLike | None = None,
        device: Place = None,
    ) -> Self:  # fmt: skip
        """base to the power of that many numbers from start to end, equally far apart.

        >>> from tinygraft import Tensor
        >>> Tensor.logspace(0, 2, 3).tolist()
        [1.0, 10.0, 100.0]
        """
        powers = cls.linspace(start, end, steps, device=device, dtype=dtypes.double)
        found = powers._const(base).pow(powers)
        return found._cast(dtype or dtypes.default_float())

    def split_with_sizes(self, split_sizes: Any, dim: int = 0) -> tuple[Self, ...]:
        """split into parts of given sizes."""
        return self.split(list(split_sizes), dim)

    def byte(self) -> Self:
        """cast to uint8."""
        return self._cast(dtypes.uint8)

    def char(self) -> Self:
        """cast to int8."""
        return self._cast(dtypes.int8)
