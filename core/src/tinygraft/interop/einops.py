"""einops on tensors: importing this module registers the backend, and there are einops' layers as plain objects.

    import tinygraft.interop.einops
    from einops import rearrange
    rearrange(images, "b c h w -> b (h w) c")

Source: einops (Rogozhnikov, ICLR 2022), which finds the subclasses of its AbstractBackend by itself.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import UnsupportedError
from tinygraft.tensor.tensor import Tensor

try:
    from einops._backends import AbstractBackend
    from einops.layers import RearrangeMixin, ReduceMixin
    from einops.layers._einmix import _EinmixMixin
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "einops":
        raise
    raise UnsupportedError("tinygraft.interop.einops needs einops\n  hint: pip install tinygraft[einops]") from None


class EinopsBackend(AbstractBackend):
    """How einops does its steps on a Tensor: all of them are movements, reductions and products of ours."""

    framework_name = "tinygraft"

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Whether this is the backend of a value."""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Tensor:
        """Return an array as a tensor."""
        return Tensor(x)

    def to_numpy(self, x: Tensor) -> Any:
        """Return the values of a tensor."""
        return x.numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        """Return the integers from start to below stop."""
        return Tensor.arange(start, stop)

    def transpose(self, x: Tensor, axes: Any) -> Tensor:
        """Return the axes in another order."""
        return x.permute(*axes)

    def reduce(self, x: Tensor, operation: str, axes: Any) -> Tensor:
        """Return a reduction over several axes at once."""
        found: Tensor = getattr(x, operation)(axis=tuple(axes)) if axes else x
        return found

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
        """Return tensors along a new first axis."""
        return tensors[0].stack(*tensors[1:])

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        """Return a tensor with one more axis, of size 1."""
        return x.unsqueeze(new_position)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
        """Return a tensor with more axes, along which it repeats: a view, without a copy."""
        for position in pos2len:
            x = x.unsqueeze(position)
        return x.expand(*(pos2len.get(axis, size) for axis, size in enumerate(x.shape)))

    def tile(self, x: Tensor, repeats: Any) -> Tensor:
        """Return a tensor repeated along each axis."""
        return x.repeat(*repeats)

    def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
        """Return tensors one behind another along an axis."""
        return tensors[0].cat(*tensors[1:], dim=axis)

    def is_float_type(self, x: Tensor) -> bool:
        """Whether a mean of it is one of floats."""
        return x.dtype in dtypes.floats

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        """Return a sum of products."""
        return Tensor.einsum(pattern, *x)

    def layers(self) -> ModuleType:
        """Return what has Rearrange, Reduce and EinMix."""
        return sys.modules[__name__]


class Rearrange(RearrangeMixin):
    """`einops.rearrange` as a layer."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return a tensor with its axes arranged."""
        found: Tensor = self._apply_recipe(x)
        return found


class Reduce(ReduceMixin):
    """`einops.reduce` as a layer."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return a tensor without the axes that are reduced."""
        found: Tensor = self._apply_recipe(x)
        return found


class EinMix(_EinmixMixin):
    """A linear layer between named axes, with the initial values of einops' own: weight, and bias where it has one."""

    weight: Tensor
    bias: Tensor | None

    def _create_parameters(self, weight_shape: Any, weight_bound: float, bias_shape: Any, bias_bound: float) -> None:
        self.weight = Tensor.uniform(*weight_shape, low=-weight_bound, high=weight_bound)
        self.bias = None if bias_shape is None else Tensor.uniform(*bias_shape, low=-bias_bound, high=bias_bound)

    def _create_rearrange_layers(
        self, pre_reshape_pattern: str | None, pre_reshape_lengths: dict[str, int] | None,
        post_reshape_pattern: str | None, post_reshape_lengths: dict[str, int] | None,
    ) -> None:  # fmt: skip
        self.pre_rearrange = pre_reshape_pattern and Rearrange(pre_reshape_pattern, **(pre_reshape_lengths or {}))
        self.post_rearrange = post_reshape_pattern and Rearrange(post_reshape_pattern, **(post_reshape_lengths or {}))

    def __call__(self, x: Tensor) -> Tensor:
        """Return the sum of products with the weight, and the bias."""
        if isinstance(self.pre_rearrange, Rearrange):
            x = self.pre_rearrange(x)
        found = Tensor.einsum(self.einsum_pattern, x, self.weight)
        if self.bias is not None:
            found = found + self.bias
        return self.post_rearrange(found) if isinstance(self.post_rearrange, Rearrange) else found
