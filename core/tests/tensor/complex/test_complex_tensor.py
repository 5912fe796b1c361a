"""Complex tensors: values against numpy, gradients against finite differences and PyTorch, and what they refuse.

Numbers are drawn over several magnitudes; a value may be so many units in the last place (of its dtype, relative to its
magnitude) from what numpy gives in long double.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinygraft import Tensor, TinyJit, dtypes, grad, jvp, vmap
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.nn.optim import Adam
from tinygraft.nn.state import safe_load, safe_save
from tinygraft.tensor.complex.complex_tensor import ComplexTensor

pytestmark = pytest.mark.slow

rng = np.random.default_rng(0)
Array = np.ndarray[Any, Any]
BOTH = [np.complex64, np.complex128]
FUNCTIONS = [
    "sqrt", "log", "log2", "log10", "log1p", "exp", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin",
    "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "abs", "square", "reciprocal", "angle", "sign",
]  # fmt: skip
GROWING = {"exp", "expm1", "sin", "cos", "sinh", "cosh"}  # of numbers that are not large
ULPS = 5.0


def numbers(*shape: int, dtype: Any = np.complex128, spread: float = 0.0) -> Array:
    """Complex numbers, of several magnitudes."""
    parts = rng.normal(size=(2, *shape)) * np.exp(rng.normal(size=(2, *shape)) * spread)
    return (parts[0] + 1j * parts[1]).astype(dtype)  # type: ignore[no-any-return]


def close(found: Any, wanted: Any, ulps: float = 50.0) -> None:
    """Of the same shape and dtype, and so many units of the greatest apart."""
    values, wanted = np.asarray(found.numpy()), np.asarray(wanted)
    assert values.shape == wanted.shape and values.dtype == wanted.dtype
    if values.dtype.kind in "fc" and values.size:
        unit = np.finfo(values.dtype).eps * max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(values, wanted, rtol=0, atol=ulps * unit)
    else:
        np.testing.assert_array_equal(values, wanted)


# Making and reading


def test_numbers_lists_and_arrays_become_complex() -> None:
    """Python's numbers are complex64 unless DEFAULT_FLOAT says otherwise, numpy's keep their width."""
    assert Tensor(1 + 2j).item() == 1 + 2j
    assert Tensor(1j).dtype is Tensor([[1, 2j], [3.5, True]]).dtype is dtypes.complex64
    assert Tensor([[1, 2j], [3.5, True]]).tolist() == [[1, 2j], [3.5, 1]]
    assert Tensor([1.0], dtype=dtypes.complex128).tolist() == [1 + 0j]
    assert Tensor(np.complex128(2j)).dtype is Tensor([np.complex128(2j)]).dtype is dtypes.complex128
    assert Tensor([], dtype="complex64").shape == (0,)
    assert Tensor(dtype=dtypes.complex64).item() == 0
    assert Tensor(bytes(16), dtype=dtypes.complex64).tolist() == [0, 0]
    a = numbers(3, 4)
    for view in (a, a.T, a[::-1, ::2], np.asfortranarray(a), a.astype(">c16"), a[:0]):
        close(Tensor(view), view.astype(np.complex128), 0)
    close(Tensor(a, dtype=dtypes.complex64), a.astype(np.complex64), 0)
    close(Tensor(Tensor(a), dtype=dtypes.complex64), a.astype(np.complex64), 0)
    assert isinstance(Tensor(a), ComplexTensor)
    assert complex(Tensor([2j])) == 2j


def test_creation_takes_complex_dtypes_and_values() -> None:
    """Each function that fills a tensor."""
    assert Tensor.zeros(2, dtype=dtypes.complex64).tolist() == [0, 0]
    assert Tensor.full((2,), 1j).tolist() == [1j, 1j]
    assert Tensor.arange(3, dtype="complex64").tolist() == [0, 1, 2]
    assert Tensor.linspace(0, 1j, 3).tolist() == [0, 0.5j, 1j]
    assert Tensor.eye(2, dtype=dtypes.complex128).tolist() == [[1, 0], [0, 1]]
    assert Tensor.empty(2, 3, dtype=dtypes.complex64).shape == (2, 3)
    assert Tensor([1j, 2]).ones_like().tolist() == [1, 1]
    assert Tensor([1j, 2]).full_like(2).dtype is dtypes.complex64


def test_what_is_known_without_computing() -> None:
    """Sizes count both parts."""
    z = Tensor(numbers(2, 3))
    assert (z.shape, z.ndim, z.numel(), z.dtype, z.itemsize if hasattr(z, "itemsize") else 16) == (
        (2, 3), 2, 6, dtypes.complex128, 16)  # fmt: skip
    assert z.nbytes() == 96 and z.element_size() == 16
    assert z.is_complex() and not z.is_floating_point() and not z.real.is_complex()
    assert dtypes.is_complex(z.dtype) and not dtypes.is_float(z.dtype)
    assert repr(Tensor([1j])).startswith("<Tensor [0.+1.j] complex64 (1,) on ")


@pytest.mark.parametrize("dtype", BOTH)
def test_parts(dtype: Any) -> None:
    """Apart, together again, turned and measured."""
    a = numbers(3, 4, dtype=dtype)
    z = Tensor(a)
    close(z.real, a.real, 0)
    close(z.imag, a.imag, 0)
    close(z.real.complex(z.imag), a, 0)
    close(z.view_as_real(), np.stack([a.real, a.imag], -1), 0)
    close(z.view_as_real().view_as_complex(), a, 0)
    close(z.abs().polar(z.angle()), a)
    close(z.conj(), a.conj(), 0)
    close(z.isreal(), np.isreal(a))
    assert Tensor([1.5]).imag.tolist() == [0.0] and Tensor([1.5]).conj().tolist() == [1.5]
    close(z.bitcast(dtypes.uint8), a.view(np.uint8), 0)
    close(Tensor(a.view(np.uint8)).bitcast(z.dtype), a, 0)


def test_copies_pickles_and_other_libraries() -> None:
    """The values come back from each."""
    a = numbers(3, 4)
    z = Tensor(a)
    for other in (copy.copy(z), copy.deepcopy(z), pickle.loads(pickle.dumps(z)), z.clone(), z.detach(), z.to("PYTHON")):
        close(other, a, 0)
    close(Tensor.from_dlpack(a), a, 0)
    close(Tensor.from_dlpack(a.T), a.T, 0)
    np.testing.assert_array_equal(np.from_dlpack(z), a)  # type: ignore[arg-type]
    np.testing.assert_array_equal(np.asarray(z), a)


def test_files(tmp_path: Any) -> None:
    """safetensors has complex64, lazily; torch's files have both."""
    z, path = Tensor(numbers(2, 3, dtype=np.complex64)), str(tmp_path / "z.safetensors")
    safe_save({"z": z, "x": z.real}, path)
    close(safe_load(path)["z"], z.numpy(), 0)
    with pytest.raises(DTypeError, match=r"^the safetensors format has no dtypes.complex128, which 'w' is; cast it f"):
        safe_save({"w": Tensor([1j], dtype=dtypes.complex128)}, path)


def test_files_as_the_libraries_write_them(tmp_path: Any) -> None:
    """safetensors' own writer and PyTorch's."""
    safetensors, torch = pytest.importorskip("safetensors.torch"), pytest.importorskip("torch")
    from tinygraft.nn.state import torch_load

    a, path = numbers(2, 3, dtype=np.complex64), str(tmp_path / "z")
    safetensors.save_file({"z": torch.tensor(a)}, path)
    close(safe_load(path)["z"], a, 0)
    torch.save({"z": torch.tensor(a).T, "w": torch.tensor(a.astype(np.complex128))}, path)
    close(torch_load(path)["z"], a.T, 0)
    close(torch_load(path)["w"], a.astype(np.complex128), 0)


# Values


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_number(name: str, dtype: Any) -> None:
    """Within a few units in the last place of their magnitude: near 0, beside the unit circle and far out."""
    plain, near = numbers(300, dtype=dtype), numbers(300, dtype=dtype) * dtype(1e-3)
    circle = np.exp(1j * rng.normal(size=300)).astype(dtype) * (1 + near.real)
    far = [] if name in GROWING else [numbers(300, dtype=dtype, spread=3.0)]
    for z in (plain, near, circle.astype(dtype), *far):
        wanted = getattr(np, name)(z.astype(np.clongdouble))
        found = getattr(Tensor(z), name.replace("arc", "a"))().numpy()
        assert np.isfinite(found).all()
        unit = np.finfo(dtype).eps * np.abs(wanted)
        assert float((np.abs(found - wanted) / np.maximum(unit, np.finfo(np.float64).tiny)).max()) <= ULPS


EDGES = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, np.inf, -np.inf]


@pytest.mark.parametrize("name", ["sqrt", "log", "arcsin", "arccos", "arctanh", "arcsinh", "arccosh", "arctan"])
def test_sides_of_branch_cuts(name: str) -> None:
    """The sign of a zero says on which side of a cut a number is, as numpy has it."""
    cut = [complex(x, y) for x in (-3.0, -2.0, 2.0, 3.0) for y in (0.0, -0.0)]
    cut += [complex(x, y) for y in (-3.0, 3.0) for x in (0.0, -0.0)]
    z = np.array(cut)
    np.testing.assert_allclose(getattr(Tensor(z), name.replace("arc", "a"))().numpy(), getattr(np, name)(z), rtol=1e-14)


def test_infinities_and_zeros() -> None:
    """exp, sqrt and log of the edges, as C99 has them; powers of zero."""
    z = np.array([complex(x, y) for x in EDGES for y in EDGES])
    with np.errstate(all="ignore"):
        for found, wanted in [(Tensor(z).sqrt().numpy(), np.sqrt(z)), (Tensor(z).log().numpy(), np.log(z))]:
            np.testing.assert_allclose(found.real, wanted.real, rtol=1e-15)
            np.testing.assert_allclose(found.imag, wanted.imag, rtol=1e-15)
    below = z[(z.real == -np.inf)]
    assert (Tensor(below).exp().numpy() == 0).all()
    assert Tensor(complex(np.inf, 0)).exp().item() == complex(np.inf, 0)
    zero = Tensor([0j, 0j, 0j])
    assert zero.pow(Tensor([0j, 2 + 0j, 2 + 1j])).tolist() == [1, 0, 0]
    assert Tensor([0j]).abs().item() == 0 and Tensor([0j]).sign().item() == 0


@pytest.mark.parametrize("dtype", BOTH)
def test_arithmetic(dtype: Any) -> None:
    """With each other, with real tensors and with numbers, on both sides."""
    a, b = numbers(4, 5, dtype=dtype, spread=2.0), numbers(5, dtype=dtype)
    z, w = Tensor(a), Tensor(b)
    for found, wanted in [
        (z + w, a + b), (z - w, a - b), (w - z, b - a), (-z, -a), (z * w, a * b), (z + w.real, a + b.real),
        (z * w.real, a * b.real), (w.real * z, b.real * a), (w.real - z, b.real - a), (z + 1, a + 1),
        (1j * z, dtype(1j) * a), (z.real + 1j, a.real + dtype(1j)), (z**2, a**2), (w**3, b**3),
    ]:  # fmt: skip
        close(found, wanted)
    for found, wanted in [
        (z / w, a / b), (z.real / w, a.real / b), (z / w.real, a / b.real), (1 / w, 1 / b), (w**-1, b**-1),
        (w**0.5, b**0.5), (w**w, b**b), (2**w, 2**b), (w**1.5, b**1.5), (w.real.abs() ** w, np.abs(b.real) ** b),
    ]:  # fmt: skip
        np.testing.assert_allclose(found.numpy(), wanted, rtol=100 * np.finfo(dtype).eps)
    big = np.array([1e30 + 1e30j], dtype)  # whose squares overflow in 32 bits
    np.testing.assert_allclose((Tensor(big) / Tensor(big)).numpy(), big / big, rtol=1e-6)
    np.testing.assert_allclose(Tensor(big).abs().numpy(), np.abs(big), rtol=1e-6)


def test_an_infinity_times_a_real_number_stays_one() -> None:
    """Nothing is multiplied by zeros that nobody wrote."""
    assert (Tensor(complex(np.inf, 1)) * Tensor(2.0)).item() == complex(np.inf, 2)
    assert (Tensor(2.0) * Tensor(complex(np.inf, 1))).item() == complex(np.inf, 2)


@pytest.mark.parametrize("a", [dtypes.bool, dtypes.int32, dtypes.half, dtypes.float32, dtypes.float64,
                               dtypes.complex64, dtypes.complex128], ids=lambda d: d.name)  # fmt: skip
def test_promotion(a: Any) -> None:
    """By width of the parts; numbers are weak."""
    wide = a in (dtypes.float64, dtypes.complex128)
    x = Tensor.ones(2, dtype=a)
    assert (x + Tensor([1j])).dtype is (Tensor([1j]) * x).dtype is (dtypes.complex128 if wide else dtypes.complex64)
    assert (x + 1j).dtype is (1j * x).dtype is (dtypes.complex128 if wide else dtypes.complex64)
    assert (x + Tensor([1j], dtype=dtypes.complex128)).dtype is dtypes.complex128
    assert (Tensor([1j]) + 1.5).dtype is dtypes.complex64


def test_comparisons_and_choices() -> None:
    """Equal where both parts are; a choice of complex numbers by real conditions."""
    a = numbers(3, 4)
    z, on = Tensor(a), a.real > 0
    assert (z == z).all().item() and not (z != z).any().item() and (z == a).all().item()
    close(z == z.real, a == a.real)
    close(Tensor(on).where(z, 1j), np.where(on, a, 1j), 0)
    close(Tensor(on).where(2.0, z), np.where(on, 2.0, a), 0)
    close(z.masked_fill(Tensor(on), 1j), np.where(on, 1j, a), 0)
    close(z.masked_select(Tensor(on)), a[on], 0)
    close(z.isclose(z + 1e-12), np.isclose(a, a + 1e-12))
    odd = np.array([np.nan + 1j, np.inf + 1j, complex(1, -np.inf), 1j, complex(np.inf, np.nan)])
    for name in ("isnan", "isinf", "isfinite"):
        close(getattr(Tensor(odd), name)(), getattr(np, name)(odd))


@pytest.mark.parametrize("dtype", BOTH)
def test_sums_products_and_places(dtype: Any) -> None:
    """Reductions, running ones, products of matrices, and the methods that move elements."""
    a = numbers(6, 5, dtype=dtype)
    z = Tensor(a)
    for found, wanted in [
        (z.sum(), a.sum()), (z.sum(0, keepdim=True), a.sum(0, keepdims=True)), (z.mean(1), a.mean(1)),
        (z.prod(), a.prod()), (z.prod(0), a.prod(0)), (z.prod(1, keepdim=True), a.prod(1, keepdims=True)),
        (z.var(0, correction=0), a.var(0)), (z.std(), a.std(ddof=1)), (z[:0].prod(0), a[:0].prod(0)),
        (z.cumsum(1), a.cumsum(1)), (z.cumprod(0), a.cumprod(0)), (z @ z.T, a @ a.T), (z @ z[0], a @ a[0]),
        (z.real @ z.T, a.real @ a.T), (z @ z.real.T, a @ a.real.T),
        (z[:5].matrix_power(3), np.linalg.matrix_power(a[:5], 3)),
        (Tensor.einsum("ij,kj->ik", z, z), np.einsum("ij,kj->ik", a, a)), (z[0].outer(z[1]), np.outer(a[0], a[1])),
        (z.trace(), np.trace(a)), (z.kron(z[:2]), np.kron(a, a[:2])), (z.round(decimals=1), a.round(1)),
    ]:  # fmt: skip
        close(found, wanted, 100)
    for found, wanted in [
        (z.T.reshape(3, 10)[1:, ::2], a.T.reshape(3, 10)[1:, ::2]), (z[[1, 2], [3, 4]], a[[1, 2], [3, 4]]),
        (z[z.real > 0], a[a.real > 0]), (z.flip(0), a[::-1]), (z.roll(3, 1), np.roll(a, 3, 1)), (z.tril(), np.tril(a)),
        (z.pad(((1, 1), (0, 0)), value=2j), np.pad(a, ((1, 1), (0, 0)), constant_values=2j)), (z.diff(), np.diff(a)),
        (z.cat(z.real, dim=0), np.concatenate([a, a.real])), (z.real.cat(z), np.concatenate([a.real, a])),
        (Tensor.stack(z, z, dim=1), np.stack([a, a], 1)), (z.diagonal(), a.diagonal()),
        (z.repeat(2, 1), np.tile(a, (2, 1))),
        (z.gather(1, Tensor([[0], [1]] * 3)), np.take_along_axis(a, np.array([[0], [1]] * 3), 1)), (z.any(0), a.any(0)),
        (z.expand(2, 6, 5), np.broadcast_to(a, (2, 6, 5))), (z.unsqueeze(0).squeeze(), a), (z.all(), a.all()),
    ]:  # fmt: skip
        close(found, wanted, 0)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=3), st.integers(0, 2**32 - 1))
def test_any_shape(shape: list[int], seed: int) -> None:
    """Shapes of 0 to 3 axes, zero sizes among them."""
    draws = np.random.default_rng(seed)
    a = draws.normal(size=shape) + 1j * draws.normal(size=shape)
    z = Tensor(a)
    close(z * z.conj() + 1, a * a.conj() + 1)
    close(z.sum(), a.sum())
    close(z.prod(), a.prod())
    close(z.exp().reshape(-1), np.exp(a).reshape(-1))
    assert z.tolist() == a.tolist()


# New values


def test_assignments() -> None:
    """In place, whole and in parts; what was made before keeps its values."""
    a = numbers(4, 3)
    z, b = Tensor(a), a.copy()
    before = z * 2
    z[1:3] = 5j
    b[1:3] = 5j
    z[:, 0] = z.real[:, 0]
    b[:, 0] = b.real[:, 0]
    z[z.real > 0] = 1 + 1j
    b[b.real > 0] = 1 + 1j
    z += 1j
    b += 1j
    z.assign(z * 1j)
    b = b * 1j
    close(z, b)
    close(before, a * 2)
    z.real.assign(z.real * 0)
    close(z, b.imag * 1j)


def test_real_memory_takes_no_complex_numbers() -> None:
    """Nothing is lost without a word."""
    x = Tensor([1.0, 2.0])
    with pytest.raises(DTypeError, match=r"^cannot assign dtypes.complex64 to a tensor of dtypes.float\n"):
        x.assign(Tensor([1j, 2j]))
    with pytest.raises(DTypeError, match=r"^cannot cast dtypes.complex64 to dtypes.float: that would lose the imagin"):
        x[0] = 1j
    with pytest.raises(DTypeError, match=r"^cannot make a tensor of dtypes.float from complex numbers: that would lo"):
        Tensor(1j, dtype=dtypes.float32)


def test_parts_that_were_given_stay_what_they_are() -> None:
    """A complex tensor made of two real ones is no view of them."""
    a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    c, twice = a.complex(b), a.complex(a)
    c[0] = 9 + 9j
    c.requires_grad_()
    twice.assign(Tensor([5j, 6]))
    assert (a.tolist(), b.tolist(), a.requires_grad) == ([1, 2], [3, 4], None)
    assert (c.tolist(), twice.tolist()) == ([9 + 9j, 2 + 4j], [5j, 6])
    assert c.to(c.device) is c


def test_replace_takes_the_new_dtype() -> None:
    """As for real tensors; a real one cannot take the place of a complex one."""
    z = Tensor([1j])
    assert z.replace(Tensor([2j], dtype=dtypes.complex128)).dtype is dtypes.complex128
    with pytest.raises(DTypeError, match=r"^cannot replace a complex tensor by one of dtypes.float\n  made at "):
        z.replace(Tensor([1.0]))


def test_nothing_is_lost_on_the_way_to_numpy() -> None:
    """NumPy would only warn; a subclass of Tensor would lose its class."""

    class Mine(Tensor):
        pass

    assert np.asarray(Tensor([1j]), dtype=np.complex128).tolist() == [1j]
    with pytest.raises(
        DTypeError, match=r"^an array of .*float32.* would lose the imaginary parts of dtypes.complex64"
    ):
        np.asarray(Tensor([1j]), dtype=np.float32)
    with pytest.raises(
        DTypeError, match=r"^Mine cannot hold complex numbers: Tensor makes a ComplexTensor of them, wh"
    ):
        Mine([1j])
    with pytest.raises(DTypeError, match=r"^arange counts with real numbers, got arange\(0, 3j, 1\)$"):
        Tensor.arange(0, 3j)  # type: ignore[arg-type]


# Gradients


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_pytorch(name: str) -> None:
    """With a weight on the imaginary parts, so that both count."""
    torch = pytest.importorskip("torch")
    name = {"sign": "sgn"}.get(name, name.replace("arc", "a"))
    a = numbers(3, 4)
    z, t = Tensor(a, requires_grad=True), torch.tensor(a, requires_grad=True)
    for x in (z, t):
        y: Any = getattr(x, name)()
        (y.real.sum() + (y.imag * 2).sum() if y.is_complex() else y.sum()).backward()
    np.testing.assert_allclose(z.grad.numpy(), t.grad.numpy(), rtol=1e-9, atol=1e-11)


PROGRAMS: list[Callable[[Any], Any]] = [
    lambda z: (z @ z.T / (z.mean() + 2)).prod().abs(),
    lambda z: (z.cumprod(1) * z.conj()).abs().sum(),
    lambda z: (z**2.5 + z[1:2, ::2].sum() * 1j).imag.sum(),
    lambda z: z.fft().abs().square().sum(),
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_of_programs(program: Callable[[Any], Any]) -> None:
    """Finite differences along the real and the imaginary axis: the gradient's real and imaginary parts."""
    a, step = numbers(3, 4), 1e-6
    found = program(z := Tensor(a, requires_grad=True)).gradient(z)[0].numpy()
    for place in np.ndindex(a.shape):
        shift = np.zeros_like(a)
        shift[place] = step
        along = [
            (program(Tensor(a + s)).item() - program(Tensor(a - s)).item()) / (2 * step) for s in (shift, shift * 1j)
        ]
        np.testing.assert_allclose(found[place], complex(*along), rtol=1e-4, atol=1e-6)


def test_transforms_jit_and_training() -> None:
    """A complex tensor goes through each as its two parts do."""
    a = numbers(3, 4)
    close(grad(lambda z: z.abs().square().sum())(Tensor(a)), 2 * a)
    close(vmap(lambda z: (z * z).sum())(Tensor(a)), (a * a).sum(1))
    close(jvp(lambda z: z * z, (Tensor(a),), (Tensor(a),))[1], 2 * a * a)

    @TinyJit
    def both(z: Any, w: Any) -> Any:
        return {"product": z * w + 1j}, [z.abs()]

    for i in range(4):
        found, sizes = both(Tensor(a + i), w=Tensor(a * i))
        close(found["product"], (a + i) * (a * i) + 1j)
        close(sizes[0], np.abs(a + i))
    assert both.captured == 1
    again = pickle.loads(pickle.dumps(both))
    close(again(Tensor(a), w=Tensor(a))[0]["product"], a * a + 1j)

    w = Tensor(numbers(5, dtype=np.complex64), requires_grad=True)
    optimizer, losses = Adam([w], lr=0.1), []
    with Tensor.train():
        for _ in range(30):
            optimizer.zero_grad()
            losses.append((w - 1j).abs().square().sum().backward().item())
            optimizer.step()
    assert losses[-1] < losses[0] / 10


def test_shards() -> None:
    """Cut over two devices and put together again."""
    a = numbers(4, 3)
    z = Tensor(a, device="PYTHON").shard(("PYTHON", "PYTHON:1"), axis=0)
    assert z.sharding == (0, (2, 2))
    close((z * z).sum(0), (a * a).sum(0))


# What is refused

REFUSED = [
    (lambda z: z < z, r"^cannot compare complex numbers: they have no order\n  made at "),
    (lambda z: z.relu(), r"^cannot take the maximum of complex numbers: they have no order\n"),
    (lambda z: z.max(), r"^max is not defined for dtypes.complex128\n  made at .*\n  hint: use it on t.real, t.imag"),
    (lambda z: z.floor(), r"^floor is not defined for dtypes.complex128\n"),
    (lambda z: z.softmax(), r"^softmax is not defined for dtypes.complex128\n"),
    (lambda z: z % 2, r"^__mod__ is not defined for dtypes.complex128\n"),
    (lambda z: z & 1, r"^cannot take the bits in both of complex numbers\n"),
    (lambda z: float(z[0, 0]), r"^__float__ is not defined for dtypes.complex128\n"),
    (lambda z: z.cast(dtypes.float32), r"^cannot cast dtypes.complex128 to dtypes.float: that would lose the imag"),
    (lambda z: z.uop, r"^uop is not defined for dtypes.complex128\n"),
    (lambda z: z.data(), r"^memoryview has no format for dtypes.complex128\n  hint: t.view_as_real\(\).data\(\)"),
    (lambda z: z.backward(), r"^backward of complex numbers needs gradient=, a tensor of their shape: only a real num"),
    (lambda z: z.real.view_as_real(), r"^view_as_real needs complex numbers, got dtypes.double\n  made at "),
    (lambda z: z.where(z, z), r"^where needs a condition of bool, got dtypes.complex128\n"),
    (lambda z: dtypes.min(z.dtype), r"^dtypes.complex128 has no least and no greatest value: complex numbers have no "),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "sentence"), REFUSED)
def test_what_complex_numbers_do_not_have(wrong: Callable[[Any], Any], sentence: str) -> None:
    """A sentence with the name of the method."""
    with pytest.raises(DTypeError, match=sentence):
        wrong(Tensor(numbers(2, 3)))


def test_shapes_that_do_not_fit() -> None:
    """As of any tensors."""
    z = Tensor(numbers(2, 3))
    with pytest.raises(ShapeError, match=r"^view_as_complex needs a last axis of 2, got shape \(2, 3\)\n  made at "):
        z.real.view_as_complex()
    with pytest.raises(
        ShapeError, match=r"^real parts of shape \(2, 3\) and imaginary parts of shape \(2,\) cannot be "
    ):
        z.real.complex(Tensor([1.0, 2.0]))
    with pytest.raises(ShapeError, match=r"\(2, 3\) and \(2,\)"):
        z + Tensor([1j, 2j])
    with pytest.raises(
        ShapeError, match=r"^backward of shape \(2, 3\) got a gradient of shape \(2,\): they must be equal"
    ):
        z.backward(Tensor([1j, 2j]))
    with pytest.raises(
        BufferError, match=r"^the real and imaginary parts of this tensor are in separate memory: it has to be copied"
    ):
        z.__dlpack__(copy=False)


def test_parts_can_be_set() -> None:
    """By a number, a list, a tensor and in place, as NumPy has it; there are no imaginary parts to set in reals."""
    z, n = Tensor([1 + 1j, 2.0]), np.array([1 + 1j, 2.0])
    for x in (z, n):
        x.real += 1
        x.imag = 5
        x.real = [7, 8]
        x.imag *= x.real
        x.real[0] = 3
    assert z.tolist() == n.tolist() == [3 + 35j, 8 + 40j]
    t = Tensor([1.0, 2.0])
    t.real += 1
    assert t.tolist() == [2.0, 3.0]
    with pytest.raises(DTypeError, match="numbers of dtypes.float have no imaginary parts to set"):
        t.imag = 1
