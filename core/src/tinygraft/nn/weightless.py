"""Layers without weights that are no activations: dropout, pooling, flattening; by PyTorch's names.

Each calls the method of Tensor that its docstring names, which says what raises. Sizes are ints or one for each axis;
a stride that is not given is the kernel.
"""

from __future__ import annotations

from typing import Any

from tinygraft.nn.described import Described
from tinygraft.nn.in_place import InPlace
from tinygraft.tensor.ops.nn.pooling_windows import Sizes
from tinygraft.tensor.tensor import Tensor


class _Dropping(InPlace):
    """A probability p. Raises ValueError for one outside [0, 1]."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__(inplace)
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__} needs a probability from 0 to 1, got {p}")
        self.p = p


class Dropout(_Dropping):
    """Tensor.dropout: elements are 0 with probability p, in training mode."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.dropout(p), of the shape of x."""
        return self._over(x, x.dropout(self.p))


class Dropout1d(_Dropping):
    """Tensor.dropout1d, of whole channels."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.dropout1d(p), of the shape of x."""
        return self._over(x, x.dropout1d(self.p))


class Dropout2d(_Dropping):
    """Tensor.dropout2d, of whole channels."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.dropout2d(p), of the shape of x."""
        return self._over(x, x.dropout2d(self.p))


class Dropout3d(_Dropping):
    """Tensor.dropout3d, of whole channels."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.dropout3d(p), of the shape of x."""
        return self._over(x, x.dropout3d(self.p))


class AlphaDropout(_Dropping):
    """Tensor.alpha_dropout."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.alpha_dropout(p), of the shape of x."""
        return self._over(x, x.alpha_dropout(self.p))


class FeatureAlphaDropout(_Dropping):
    """Tensor.feature_alpha_dropout."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.feature_alpha_dropout(p), of the shape of x."""
        return self._over(x, x.feature_alpha_dropout(self.p))


class _MaxPooling(Described):
    """Sizes of windows, of which the greatest element is taken."""

    kernel_size: Sizes
    stride: Sizes | None
    padding: Sizes
    dilation: Sizes
    return_indices: bool
    ceil_mode: bool

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        self.kernel_size, self.stride, self.padding, self.dilation = kernel_size, stride, padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode


class _AvgPooling(Described):
    """Sizes of windows, of which the mean is taken."""

    kernel_size: Sizes
    stride: Sizes | None
    padding: Sizes
    ceil_mode: bool
    count_include_pad: bool

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad
        self.divisor_override = divisor_override


class _Adaptive(Described):
    """A size of the result: an int, or one for each axis, None for that of x."""

    def __init__(self, output_size: Any) -> None:
        self.output_size = output_size


class _AdaptiveMax(Described):
    """A size of the result, and whether the indices of what is greatest are returned too."""

    output_size: Any
    return_indices: bool

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        self.output_size, self.return_indices = output_size, return_indices


class MaxPool1d(_MaxPooling):
    """Tensor.max_pool1d of x (..., channels, length): the greatest of each window.

    stride None is the kernel; padding is never the greatest. With return_indices it is (values, indices in the
    flattened spatial axes). The dtype is that of x.
    """

    def __call__(self, x: Tensor) -> Any:
        """Return x.max_pool1d(...) with these sizes: a tensor, or with return_indices (values, indices)."""
        return x.max_pool1d(
            self.kernel_size, self.stride, padding=self.padding, dilation=self.dilation, ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )  # fmt: skip


class MaxPool2d(_MaxPooling):
    """Tensor.max_pool2d of x (..., channels, height, width): the greatest of each window.

    stride None is the kernel; padding is never the greatest. With return_indices it is (values, indices in the
    flattened spatial axes). The dtype is that of x.
    """

    def __call__(self, x: Tensor) -> Any:
        """Return x.max_pool2d(...) with these sizes: a tensor, or with return_indices (values, indices)."""
        return x.max_pool2d(
            self.kernel_size, self.stride, padding=self.padding, dilation=self.dilation, ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )  # fmt: skip


class MaxPool3d(_MaxPooling):
    """Tensor.max_pool3d of x (..., channels, depth, height, width): the greatest of each window.

    stride None is the kernel; padding is never the greatest. With return_indices it is (values, indices in the
    flattened spatial axes). The dtype is that of x.
    """

    def __call__(self, x: Tensor) -> Any:
        """Return x.max_pool3d(...) with these sizes: a tensor, or with return_indices (values, indices)."""
        return x.max_pool3d(
            self.kernel_size, self.stride, padding=self.padding, dilation=self.dilation, ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )  # fmt: skip


class AvgPool1d(Described):
    """Tensor.avg_pool1d of x (..., channels, length): the mean of each window.

    stride None is the kernel; padding counts as 0, and in the number of elements if count_include_pad.
    """

    kernel_size: Sizes
    stride: Sizes | None
    padding: Sizes
    ceil_mode: bool
    count_include_pad: bool

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.avg_pool1d(...) with these sizes."""
        return x.avg_pool1d(
            self.kernel_size, self.stride, padding=self.padding, ceil_mode=self.ceil_mode,
            count_include_pad=self.count_include_pad,
        )  # fmt: skip


class AvgPool2d(_AvgPooling):
    """Tensor.avg_pool2d of x (..., channels, height, width): the mean of each window.

    stride None is the kernel; padding counts as 0, and in the number of elements if count_include_pad. divisor_override
    takes the place of that number.
    """

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.avg_pool2d(...) with these sizes."""
        return x.avg_pool2d(
            self.kernel_size, self.stride, padding=self.padding, ceil_mode=self.ceil_mode,
            count_include_pad=self.count_include_pad, divisor_override=self.divisor_override,
        )  # fmt: skip


class AvgPool3d(_AvgPooling):
    """Tensor.avg_pool3d of x (..., channels, depth, height, width): the mean of each window.

    stride None is the kernel; padding counts as 0, and in the number of elements if count_include_pad. divisor_override
    takes the place of that number.
    """

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.avg_pool3d(...) with these sizes."""
        return x.avg_pool3d(
            self.kernel_size, self.stride, padding=self.padding, ceil_mode=self.ceil_mode,
            count_include_pad=self.count_include_pad, divisor_override=self.divisor_override,
        )  # fmt: skip


class AdaptiveAvgPool1d(_Adaptive):
    """Tensor.adaptive_avg_pool1d to output_size."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.adaptive_avg_pool1d(...) with these sizes."""
        return x.adaptive_avg_pool1d(self.output_size)


class AdaptiveMaxPool1d(_AdaptiveMax):
    """Tensor.adaptive_max_pool1d to output_size."""

    def __call__(self, x: Tensor) -> Any:
        """Return x.adaptive_max_pool1d(...) with these sizes: a tensor, or with return_indices (values, indices)."""
        return x.adaptive_max_pool1d(self.output_size, self.return_indices)


class AdaptiveAvgPool2d(_Adaptive):
    """Tensor.adaptive_avg_pool2d to output_size."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.adaptive_avg_pool2d(...) with these sizes."""
        return x.adaptive_avg_pool2d(self.output_size)


class AdaptiveMaxPool2d(_AdaptiveMax):
    """Tensor.adaptive_max_pool2d to output_size."""

    def __call__(self, x: Tensor) -> Any:
        """Return x.adaptive_max_pool2d(...) with these sizes: a tensor, or with return_indices (values, indices)."""
        return x.adaptive_max_pool2d(self.output_size, self.return_indices)


class AdaptiveAvgPool3d(_Adaptive):
    """Tensor.adaptive_avg_pool3d to output_size."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.adaptive_avg_pool3d(...) with these sizes."""
        return x.adaptive_avg_pool3d(self.output_size)


class AdaptiveMaxPool3d(_AdaptiveMax):
    """Tensor.adaptive_max_pool3d to output_size."""

    def __call__(self, x: Tensor) -> Any:
        """Return x.adaptive_max_pool3d(...) with these sizes: a tensor, or with return_indices (values, indices)."""
        return x.adaptive_max_pool3d(self.output_size, self.return_indices)


class Flatten(Described):
    """Tensor.flatten, but for the axes before start_dim: by default the batch stays.

    >>> from tinygraft import Tensor, nn
    >>> nn.Flatten()(Tensor.rand(2, 3, 4)).shape
    (2, 12)
    """

    start_dim: int
    end_dim: int

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def __call__(self, x: Tensor) -> Tensor:
        """Return x with axes start_dim to end_dim as one."""
        return x.flatten(self.start_dim, self.end_dim)


class Unflatten(Described):
    """Tensor.unflatten of axis dim into sizes."""

    dim: int
    unflattened_size: tuple[int, ...]

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        self.dim, self.unflattened_size = dim, unflattened_size

    def __call__(self, x: Tensor) -> Tensor:
        """Return x with axis `dim` as axes of unflattened_size."""
        return x.unflatten(self.dim, self.unflattened_size)
