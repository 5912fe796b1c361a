"""Operators of ONNX: products of matrices."""

from __future__ import annotations

from tinygraft.onnx.operator_table import operator, text
from tinygraft.tensor.tensor import Tensor


@operator("MatMul")
def mat_mul(a: Tensor, b: Tensor) -> Tensor:
    """The products of matrices, as numpy.matmul has them."""
    return a.matmul(b)


@operator("Gemm")
def gemm(
    a: Tensor, b: Tensor, c: Tensor | None = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
    transB: int = 0, broadcast: int = 0,
) -> Tensor:  # fmt: skip
    """Return alpha * a @ b + beta * c, of matrices that transA and transB transpose; c broadcasts."""
    found = (a.T if transA else a).matmul(b.T if transB else b)
    found = found if alpha == 1.0 else (found * alpha).cast(a.dtype)
    if c is None:
        return found
    return found + (c if beta == 1.0 else (c * beta).cast(a.dtype))


@operator("Einsum")
def einsum(*inputs: Tensor, equation: bytes) -> Tensor:
    """Sums of products by the names of axes."""
    return Tensor.einsum(text(equation), *inputs)
