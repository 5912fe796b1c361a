"""Gathers, scatters, assignments, running reductions and sorting in the file."""

from __future__ import annotations

from typing import Any

import pytest

from onnx_exports import compared, rand, whole
from tinygraft import Tensor, nn
from tinygraft.errors import ShapeError


def test_indices_count_from_either_end() -> None:
    """One Gather, of rows and of columns; of an embedding."""
    assert compared(lambda x, i: x[i], rand(4, 8), Tensor([0, 3, -1])) == ["Gather"]
    sizes = {"x": {0: "rows"}, "i": {0: "count"}}
    compared(lambda x, i: x[i], rand(4, 8), whole(0, 4, 2, 3), dynamic=sizes, other=[rand(6, 8), whole(0, 6, 5, 3)])
    assert compared(nn.Embedding(10, 4), whole(0, 10, 3, 2)) == ["Gather"]
    compared(lambda x, i: (x[:, i], x[i, i], x[i][:, None]), rand(4, 8), Tensor([0, 3, -1]))


def test_an_index_outside_reads_zero() -> None:
    """Where the graph says so, as one_hot and padding by index do."""
    compared(lambda i: i.one_hot(6), whole(0, 6, 5))
    compared(lambda x: (x.interpolate((7, 5)), x.interpolate((24, 24), mode="nearest")), rand(1, 2, 12, 12))


@pytest.mark.parametrize("how", ["sum", "amax", "amin", "prod"])
def test_scatters_combine(how: str) -> None:
    """Several values for one element."""
    compared(lambda x, i, s: x.scatter_reduce(1, i, s, how), rand(4, 8), whole(0, 8, 4, 3), rand(4, 3))


def test_scatters_and_assignments_of_parts() -> None:
    """scatter, and setitem on a tensor that the function made."""
    index = Tensor([[0, 1, 2], [3, 4, 5], [5, 6, 7], [1, 3, 5]])
    compared(lambda x, i: x.scatter(1, i, Tensor.ones(4, 3)), rand(4, 8), index)

    def assigned(x: Tensor) -> Any:
        new = Tensor.zeros(4, 8) + x
        new[1:3, 2] = x[0, :2]
        new[:, ::2] = 1
        return new

    compared(assigned, rand(4, 8))


def test_running_reductions() -> None:
    """CumSum, and Scan for those that ONNX has no operator for."""
    assert compared(lambda x: (x.cumsum(1), x.cumsum(0)), rand(4, 8)) == ["CumSum", "CumSum"]
    assert "Scan" in compared(lambda x: x.cumprod(1), rand(4, 8))
    compared(lambda x: x.cummax(1), rand(4, 8), dynamic={"x": {0: "n"}}, other=[rand(2, 8)])


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_fourier_transforms(n: int) -> None:
    """DFT, once for both parts; irfft mirrors the numbers that it is not given, and inverses divide as they should."""
    x = rand(3, n)
    assert compared(lambda x: (x.rfft().real, x.rfft().imag), x).count("DFT") == 1
    compared(lambda x: (x.fft().real, x.fft().imag, (x.fft() * 2).ifft().real), x)
    compared(lambda x: x.rfft().irfft(n=n), x)
    compared(lambda x: (x.ihfft().imag, x.rfft().hfft(n=n)), x, tolerance=1e-4)
    compared(
        lambda x: (Tensor.complex(x, x + 1).fft(dim=0).imag, Tensor.complex(x, x * 2).ifftn().real), rand(6, 8 * n)
    )


def test_sorting() -> None:
    """TopK, once for values and indices; equal elements keep their order."""
    assert compared(lambda x: x.sort(), rand(4, 8)) == ["TopK", "Cast"]
    assert compared(lambda x: x.topk(3), rand(4, 8)) == ["TopK", "Cast"]
    compared(lambda x: (*x.sort(0, descending=True), x.argsort()), rand(4, 8))
    compared(lambda x: x.sort(), whole(0, 3, 4, 8))
    with pytest.raises(ShapeError, match="sort needs sizes that are known, this one is symbolic"):
        compared(lambda x: x.sort(), rand(4, 8), dynamic={"x": {1: "n"}})


def test_sorting_rows_of_any_number() -> None:
    """An axis that is not sorted may be dynamic: two of them, the first or the last of them, and what follows."""
    rows = {"dynamic": {"x": {0: "n"}}, "other": [rand(2, 8)]}
    assert compared(lambda x: x.sort(), rand(4, 8), **rows) == ["TopK", "Cast"]
    compared(lambda x: (*x.topk(3), x.argsort(descending=True), x.softmax(-1).topk(2)[0].sum(-1)), rand(4, 8), **rows)
    compared(lambda x: x.transpose(0, 1).sort(0)[0] + 1, rand(4, 8), **rows)
    both = {"dynamic": {"x": {0: "n", 2: "m"}}, "other": [rand(5, 8, 2)]}
    compared(lambda x: (*x.sort(1), *x.topk(2, 1)), rand(3, 8, 4), **both)
