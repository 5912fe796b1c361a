"""A maximum of sums that are not stored is compared with one computation of them, by its gradient and by argmax.

On a device that computes a product in a kernel of its own otherwise than below a maximum, the sums differ in the last
place. What equals the maximum has to be asked of one computation of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinygraft import Context, Tensor

torch = pytest.importorskip("torch")

EXTREMES: dict[str, tuple[Callable[[Tensor], Tensor], Callable]] = {
    "max": (lambda x: x.max(1), lambda x: x.amax(1)),
    "min": (lambda x: x.min(1), lambda x: x.amin(1)),
    "pool": (
        lambda x: x.reshape(1, 1, 8, 4).max_pool2d(2),
        lambda x: torch.nn.functional.max_pool2d(x.reshape(1, 1, 8, 4), 2),
    ),
    "twice": (lambda x: x.max(1).reshape(4, 2).max(1), lambda x: x.amax(1).reshape(4, 2).amax(1)),
    "cummax": (lambda x: x.cummax(1)[0], lambda x: x.cummax(1)[0]),
    "norm": (lambda x: x.abs().max(1), lambda x: x.abs().amax(1)),
}


@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("device", ["CPU", "GPUSIM"])
def test_an_extreme_that_was_read_has_the_same_gradient(gpusim: str, device: str, name: str) -> None:
    """Of a product: once unread, once realised before backward; both are PyTorch's."""
    ours, theirs = EXTREMES[name]
    with Context(DEV=device):
        for seed in (5, 7, 9):
            r = np.random.default_rng(seed)
            left, right = (r.standard_normal(s).astype(np.float32) for s in ((8, 24), (24, 4)))
            leaf = torch.tensor(left, requires_grad=True)
            theirs(leaf @ torch.tensor(right)).sum().backward()
            for read in (lambda t: t, Tensor.realize, lambda t: t.numpy()):
                a = Tensor(left, requires_grad=True)
                y = ours(a @ Tensor(right))
                read(y)
                y.sum().backward()
                assert a.grad is not None
                np.testing.assert_allclose(a.grad.numpy(), leaf.grad.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", ["CPU", "GPUSIM"])
def test_what_is_compared_with_its_own_extreme_is_computed_once(gpusim: str, device: str) -> None:
    """A part of a product, which one kernel would compute in two loops: argmax and == find the maximum among it."""
    found: list[np.ndarray] = []
    with Context(DEV=device):
        for seed in range(12):
            r = np.random.default_rng(seed)
            left, right = (r.standard_normal(s).astype(np.float32) for s in ((8, 24), (24, 6)))
            x = (Tensor(left) @ Tensor(right))[:, 1:5]
            product = (left @ right)[:, 1:5]
            np.testing.assert_array_equal(x.argmax(1).numpy(), product.argmax(1))
            np.testing.assert_array_equal(x.argmin(0).numpy(), product.argmin(0))
            windows = x.reshape(4, 2, 4)
            found.append((windows == windows.max(1, keepdim=True)).sum(1).numpy())
    assert all((counts == 1).all() for counts in found)


MOVED: dict[str, Callable[[Tensor], Tensor]] = {
    "shrink": lambda x: x[:, 1:5],
    "flip": lambda x: x.flip(1),
    "pad": lambda x: x.pad(((1, 1), (0, 0))),
}


@pytest.mark.parametrize("name", MOVED)
def test_no_kernel_computes_a_compared_product_twice(name: str) -> None:
    """The product is stored by one kernel, and the comparison reads it in another."""
    product = Tensor.rand(8, 24).realize() @ Tensor.rand(24, 6).realize()
    x = MOVED[name](product)
    assert len((x == x.max(1, keepdim=True)).schedule()) == 2
