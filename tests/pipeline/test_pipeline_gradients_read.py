"""A read never changes a gradient: values beside PyTorch, read by every method at every point of a program.

Each test runs a program without reads and with them, and holds the gradients to PyTorch's, or to numbers that anyone
can check. A read is whatever computes: numpy(), tolist(), print, realize(). Programs that write between a use and its
backward are in test_pipeline_gradients_written.py; random ones in test_pipeline_gradients_random.py.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, dtypes, nn

torch = pytest.importorskip("torch")

READS: dict[str, Callable[[Tensor], Any]] = {
    "nothing": lambda t: None,
    "numpy": lambda t: t.numpy(),
    "tolist": lambda t: t.tolist(),
    "item": lambda t: t.reshape(-1)[0].item(),
    "repr": lambda t: repr(t),
    "realize": lambda t: t.realize(),
    "schedule": lambda t: t.schedule(),
    "sum": lambda t: t.sum().item(),
    "data": lambda t: bytes(t.contiguous().data()),
}
reads = pytest.mark.parametrize("read", READS.values(), ids=READS)
few_reads = pytest.mark.parametrize("read", [READS[name] for name in ("nothing", "numpy", "realize")],
                                    ids=["nothing", "numpy", "realize"])  # fmt: skip
flags = pytest.mark.parametrize("flag", [None, True], ids=str)
Read = Callable[[Tensor], Any]


def leaf(values: Any, flag: bool | None = True) -> Tensor:
    """A float64 tensor in memory."""
    return Tensor(np.array(values, np.float64), requires_grad=flag).realize()


def its(values: Any, needs: bool = True) -> Any:
    """PyTorch's."""
    return torch.tensor(np.array(values, np.float64), requires_grad=needs)


def same(found: Sequence[Tensor | None], wanted: Sequence[Any], relative: float = 1e-12) -> None:
    """Our gradients are PyTorch's."""
    for mine, other in zip(found, wanted, strict=True):
        assert mine is not None, "there is no gradient"
        np.testing.assert_allclose(mine.numpy(), other.detach().numpy(), rtol=relative, atol=relative)


# Intermediate results and leaves


@reads
@flags
def test_of_a_result(read: Read, flag: bool | None) -> None:
    """y = sin(x), read, then differentiated by both methods."""
    x = leaf([0.5, 1.0], flag)
    y = x.sin()
    read(y)
    np.testing.assert_allclose(y.sum().gradient(x)[0].numpy(), np.cos([0.5, 1.0]), rtol=1e-14)
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.cos([0.5, 1.0]), rtol=1e-14)


@reads
@flags
def test_of_a_leaf(read: Read, flag: bool | None) -> None:
    """x is read before it is used, between, and before backward."""
    x = leaf([0.5, 1.0], flag)
    read(x)
    y = x.exp()
    read(x)
    z = (y * x).sum()
    read(x)
    z.backward()
    t = its([0.5, 1.0])
    (t.exp() * t).sum().backward()
    same([x.grad], [t.grad])


@reads
@pytest.mark.parametrize("which", range(8))
def test_of_a_chain(read: Read, which: int) -> None:
    """Three results after each other, of which any set is read."""
    x, w = leaf([0.5, 1.0, -2.0]), leaf([1.5, -0.5, 2.0])
    results = []
    for i, step in enumerate((lambda v: v.exp(), lambda v: v * w + x, lambda v: (v * v).sin())):
        results.append(step(results[-1] if results else x))
        if which >> i & 1:
            read(results[-1])
    results[-1].sum().backward()
    t, u = its([0.5, 1.0, -2.0]), its([1.5, -0.5, 2.0])
    ((t.exp() * u + t) * (t.exp() * u + t)).sin().sum().backward()
    same([x.grad, w.grad], [t.grad, u.grad])


@reads
def test_of_the_loss(read: Read) -> None:
    """The loss is read before backward, as every training loop does that prints it."""
    w = leaf([1.0, 2.0])
    loss = (w * w).sum()
    read(loss.reshape(1))
    read(loss.unsqueeze(0))
    loss.backward()
    assert w.grad is not None and w.grad.tolist() == [2.0, 4.0]


@few_reads
def test_twice_backward_of_one_loss(read: Read) -> None:
    """A graph is never used up: a second backward adds the same again."""
    w = leaf([1.0, 2.0])
    y = w * w
    read(y)
    y.sum().backward()
    read(y)
    y.sum().backward()
    assert w.grad is not None and w.grad.tolist() == [4.0, 8.0]


# Loops


@reads
def test_in_a_loop(read: Read) -> None:
    """A state that is read in each iteration."""
    x, w = leaf([0.1, 0.2]), leaf([0.5, -0.9])
    t, u = its([0.1, 0.2]), its([0.5, -0.9])
    s, v = x, t
    for _ in range(6):
        s, v = s * w + x.sin(), v * u + t.sin()
        read(s)
    s.sum().backward()
    v.sum().backward()
    same([x.grad, w.grad], [t.grad, u.grad])


@few_reads
def test_of_a_recurrent_network(read: Read) -> None:
    """The hidden state is read at every step; the loss has all of them."""
    random = np.random.RandomState(0)
    first, again = random.randn(3, 4) / 2, random.randn(4, 4) / 2
    inputs = random.randn(5, 2, 3)
    a, b, t, u = leaf(first), leaf(again), its(first), its(again)
    h: Any = Tensor(np.zeros((2, 4)), requires_grad=False)
    k = torch.zeros(2, 4, dtype=torch.float64)
    loss: Any = 0
    other: Any = 0
    for row in inputs:
        h = (Tensor(row, requires_grad=False) @ a + h @ b).tanh()
        k = (torch.tensor(row) @ t + k @ u).tanh()
        read(h)
        loss, other = loss + h.square().mean(), other + k.square().mean()
    loss.backward()
    other.backward()
    same([a.grad, b.grad], [t.grad, u.grad])


@few_reads
def test_of_accumulated_gradients(read: Read) -> None:
    """Several backward calls add up, with the gradient and the weights read between."""
    w, t = leaf([0.3, -1.2]), its([0.3, -1.2])
    for x in ([1.0, 2.0], [0.5, 0.25], [-3.0, 1.0]):
        (w * Tensor(np.array(x), requires_grad=False)).sin().sum().backward()
        (t * torch.tensor(x, dtype=torch.float64)).sin().sum().backward()
        read(w)
        assert w.grad is not None
        read(w.grad)
    same([w.grad], [t.grad])


@few_reads
def test_a_gradient_is_a_value(read: Read) -> None:
    """What was read of .grad is what is used, and a later backward does not change what was computed from it."""
    w = leaf([1.0, 2.0])
    (w * w).sum().backward()
    assert w.grad is not None
    read(w.grad)
    twice = w.grad * 2
    read(twice)
    (w * 3).sum().backward()
    assert w.grad.tolist() == [5.0, 7.0] and twice.tolist() == [4.0, 8.0]


# Lazy weights, copies, cuts


@flags
@pytest.mark.parametrize("when", ["never", "before", "between", "realized before", "realized between"])
def test_of_weights_that_are_lazy(when: str, flag: bool | None) -> None:
    """A weight drawn at random is what it is whenever it is computed."""
    Tensor.manual_seed(3)
    w = Tensor.uniform(3, requires_grad=flag)
    see = (lambda: w.realize()) if "realized" in when else (lambda: w.numpy())
    if "before" in when:
        see()
    loss = (w * w).sum()
    if "between" in when:
        see()
    loss.backward()
    assert w.grad is not None, "there is no gradient"
    np.testing.assert_array_equal(w.grad.numpy(), 2 * w.numpy())


@few_reads
@pytest.mark.parametrize("copy", ["contiguous", "clone", "to", "cast", "reshape", "flip", "__getitem__"])
def test_of_a_copy(read: Read, copy: str) -> None:
    """A copy of a result carries its gradient on, read or not."""
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    y = x * 2
    read(y)
    arguments = {
        "to": ("CPU:1",),
        "cast": (dtypes.float32,),
        "reshape": (4,),
        "flip": (0,),
        "__getitem__": (...,),
    }
    z: Tensor = getattr(y, copy)(*arguments.get(copy, ()))
    read(z)
    (z * z).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[8.0, 16.0], [24.0, 32.0]]


@few_reads
def test_of_what_is_deleted(read: Read) -> None:
    """Results that were read and are gone still carry gradients."""
    x = leaf([1.0, 2.0])
    y = x * 2
    read(y)
    z = y * y
    del y
    gc.collect()
    read(z)
    total = z.sum()
    del z
    gc.collect()
    total.backward()
    assert x.grad is not None and x.grad.tolist() == [8.0, 16.0]


@reads
def test_a_cut_stays_a_cut(read: Read) -> None:
    """detach() and requires_grad_(False) let nothing through, read or not."""
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = x * x
    read(y)
    cut = y.detach()
    read(cut)
    (cut * w).sum().backward()
    assert x.grad is None and w.grad is not None and w.grad.tolist() == [1.0, 4.0]
    x.requires_grad_(False)
    v = leaf([1.0, 1.0])
    z = x * v
    read(z)
    z.sum().backward()
    assert x.grad is None and v.grad is not None and v.grad.tolist() == [1.0, 2.0]


@few_reads
def test_a_leaf_made_of_a_read_result(read: Read) -> None:
    """The values of a result, detached, as a leaf of their own: the first part of the program is not reached."""
    x = leaf([1.0, 2.0])
    y = (x * 3).detach().requires_grad_(True)
    read(y)
    (y * y).sum().backward()
    assert x.grad is None and y.grad is not None and y.grad.tolist() == [6.0, 12.0]


# Networks


@few_reads
def test_of_batch_norm(read: Read) -> None:
    """Running statistics are read after the forward pass, and realised, before backward."""
    values = np.random.RandomState(1).randn(6, 3)
    norm, other = nn.BatchNorm(3), torch.nn.BatchNorm1d(3, dtype=torch.float64)
    for t in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
        assert t is not None
        t.replace(t.cast(dtypes.float64).realize())
    for t in (norm.weight, norm.bias):
        assert t is not None
        t.requires_grad_(True)
    x, t = leaf(values), its(values)
    with Tensor.train():
        y = norm(x)
        read(norm.running_mean)
        read(norm.running_var)
        read(y)
        (y * y * y).sum().backward()
    z = other(t)
    (z * z * z).sum().backward()
    assert norm.weight is not None and norm.bias is not None
    same([x.grad, norm.weight.grad, norm.bias.grad], [t.grad, other.weight.grad, other.bias.grad], 1e-9)
    np.testing.assert_allclose(norm.running_mean.numpy(), other.running_mean.numpy(), rtol=1e-9)
    np.testing.assert_allclose(norm.running_var.numpy(), other.running_var.numpy(), rtol=1e-9)


@few_reads
def test_of_a_gradient_penalty(read: Read) -> None:
    """The gradient of a gradient, with the first gradient and the results before it read."""
    values, weight = [0.4, -0.7, 1.1], [0.9, 0.3, -0.6]
    x, w, t, u = leaf(values), leaf(weight), its(values), its(weight)
    y = (x * w).tanh()
    read(y)
    (slope,) = (y * x).sum().gradient(x)
    read(slope)
    penalty = (slope * slope).sum() + y.sum()
    read(penalty)
    penalty.backward()
    z = (t * u).tanh()
    (rise,) = torch.autograd.grad((z * t).sum(), t, create_graph=True)
    ((rise * rise).sum() + z.sum()).backward()
    same([w.grad, x.grad], [u.grad, t.grad], 1e-11)
