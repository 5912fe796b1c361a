"""Tensor expressions, compiled by the scheduler and codegen as a user's are: movement, addresses, sums, products."""

from __future__ import annotations

import numpy as np
import pytest

from tinygraft.conformance.compare import close, same
from tinygraft.conformance.corpus import NAMES
from tinygraft.conformance.expressions import (
    ADDRESSES,
    MOVEMENT,
    PRODUCTS,
    SHAPES,
    SUMS,
    Expression,
    numbers,
    of_shape,
)
from tinygraft.dtype import BY_NAME, DType, dtypes
from tinygraft.engine.arithmetic import Array
from tinygraft.tensor.tensor import Tensor

SHAPED = [pytest.param(shape, name, id=f"{name}-{'x'.join(map(str, shape))}")
          for shape in SHAPES for name in of_shape(1)]  # fmt: skip


def check(device: str, expression: Expression) -> None:
    """Compute an expression on a device. Raises AssertionError where it differs from its expected value."""
    got = expression.build(lambda array: Tensor(array, device=device)).numpy()
    want = np.asarray(expression.want())
    assert got.shape == want.shape
    close(got, want, expression.rtol)


class Tensors:
    """Each expression has numpy's value, bit for bit where every step of it is exact."""

    @pytest.mark.parametrize("name", MOVEMENT)
    def test_movement(self, device: str, name: str) -> None:
        """Movements: elements at other indices, and padding."""
        check(device, MOVEMENT[name])

    @pytest.mark.parametrize("name", ADDRESSES)
    def test_address(self, device: str, name: str) -> None:
        """Loads and stores at computed indices, and running values, where the order of iterations matters."""
        check(device, ADDRESSES[name])

    @pytest.mark.parametrize("name", SUMS)
    def test_sum(self, device: str, name: str) -> None:
        """Reductions with elementwise ops before and after them, in one kernel or two."""
        check(device, SUMS[name])

    @pytest.mark.parametrize("name", PRODUCTS)
    def test_product(self, device: str, name: str) -> None:
        """Products of matrices and convolutions, in tiles where the Target has any."""
        check(device, PRODUCTS[name])

    @pytest.mark.parametrize(("shape", "name"), SHAPED)
    def test_shape(self, device: str, shape: tuple[int, ...], name: str) -> None:
        """Expressions on tensors of sizes 0, 1 and primes."""
        check(device, of_shape(*shape)[name])

    @pytest.mark.parametrize("dtype", dtypes.all, ids=lambda d: NAMES[d])
    def test_movement_of_dtype(self, device: str, dtype: DType) -> None:
        """The numbers 0 to 4 of each dtype, permuted, flipped, padded, shrunk and joined, stay equal."""
        whole = abs(numbers(5, 7, seed=14))
        values = [bool(x) if dtype.kind == "bool" else float(x) if dtype.kind == "float" else int(x)
                  for x in whole.ravel().tolist()]  # fmt: skip
        x = Tensor(values, dtype=dtype, device=device).reshape(5, 7)
        got = x.T.flip(0).pad(((1, 2), (0, 1))).shrink(((0, 7), None)).cat(x.T, dim=1)
        want = np.concatenate([np.pad(np.flip(whole.T, 0), ((1, 2), (0, 1)))[:7], whole.T], 1)
        assert got.shape == want.shape
        same(got.tolist(), want.astype(bool if dtype.kind == "bool" else float).tolist())

    @pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=lambda d: NAMES[d])
    def test_halves_are_rounded_after_every_op(self, device: str, dtype: DType) -> None:
        """Arithmetic on halves has PYTHON's bits, native or widened, in one kernel of several ops."""
        same(half_steps(device, dtype), half_steps("PYTHON", dtype))

    @pytest.mark.parametrize("name", [dtype.name for dtype in dtypes.fp8s])
    def test_floats_of_a_byte(self, device: str, name: str) -> None:
        """Arithmetic on floats of 8 bits has PYTHON's bits; a device only stores them, as bytes."""
        same(half_steps(device, BY_NAME[name]), half_steps("PYTHON", BY_NAME[name]))

    def test_random_numbers(self, device: str) -> None:
        """rand and randint return PYTHON's bits for the same seed."""
        same(drawn(device), drawn("PYTHON"))

    def test_gradients(self, device: str) -> None:
        """The gradients of a small network with a convolution are PYTHON's up to 1e-4."""
        for mine, theirs in zip(gradients(device), gradients("PYTHON"), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)


def half_steps(device: str, dtype: DType) -> bytes:
    """Compute a few ops on small floats of `dtype`, in one kernel. Returns the bytes of the result as float32."""
    x = Tensor(np.arange(1, 40, dtype=np.float32) / 7, device=device).cast(dtype)
    return ((x * x + x) / 3 - x * x).float().numpy().tobytes()


def drawn(device: str) -> tuple[bytes, bytes]:
    """Return the bytes of random floats and random integers that are drawn on a device after the seed 42."""
    Tensor.manual_seed(42)
    uniform = Tensor.rand(37, device=device).numpy()
    return uniform.tobytes(), Tensor.randint(37, low=-5, high=1000, device=device).numpy().tobytes()


def gradients(device: str) -> list[Array]:
    """Return the gradients of a loss with respect to images and the weights of a convolution."""
    x = Tensor(numbers(2, 3, 9, 7, seed=2), device=device, requires_grad=True)
    w = Tensor(numbers(4, 3, 3, 3, seed=3) / 64, device=device, requires_grad=True)
    x.conv2d(w).relu().flatten(1).log_softmax().square().mean().backward()
    assert x.grad is not None
    assert w.grad is not None
    return [x.grad.numpy(), w.grad.numpy()]
