"""Findings 1.18, 1.19 and 2.4, by their numbers: complex infinities and NaN, complex svd, the sign of NaN.

TABLE is Annex G of C99, which the special cases of the Python array API standard repeat. A row has the parts of the
operand and of the result: f is a finite number, n one that is not 0, p a positive one, pi a multiple of pi, ~ a sign
that is left open. What is said of x + iy also holds of x - iy, by conjugation, and of -x - iy for odd functions and
even ones.
"""

from __future__ import annotations

import cmath
import inspect
import itertools
import math
import pickle
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor, dtypes, hessian, jacobian
from tinygraft import array_api as xp
from tinygraft.errors import DTypeError
from tinygraft.functions import Function
from tinygraft.tensor.methods import load_all
from tinygraft.tensor.mode import WITH_FORMS

Array = np.ndarray[Any, Any]
TABLE = {
    "acos": """
        0 0: pi/2 -0      -0 0: pi/2 -0     0 nan: pi/2 nan    -0 nan: pi/2 nan   f inf: pi/2 -inf   n nan: nan nan
        -inf p: pi -inf   inf p: 0 -inf     -inf inf: 3pi/4 -inf                  inf inf: pi/4 -inf
        inf nan: nan ~inf -inf nan: nan ~inf  nan f: nan nan   nan inf: nan -inf  nan nan: nan nan""",
    "acosh": """
        0 0: 0 pi/2       -0 0: 0 pi/2      f inf: inf pi/2    n nan: nan nan     0 nan: nan ~pi/2   -0 nan: nan ~pi/2
        -inf p: inf pi    inf p: inf 0      -inf inf: inf 3pi/4                   inf inf: inf pi/4
        inf nan: inf nan  -inf nan: inf nan nan f: nan nan     nan inf: inf nan   nan nan: nan nan""",
    "asinh": """
        0 0: 0 0          p inf: inf pi/2   n nan: nan nan     inf p: inf 0       inf inf: inf pi/4  inf nan: inf nan
        nan 0: nan 0      nan n: nan nan    nan inf: ~inf nan  nan nan: nan nan""",
    "atanh": """
        0 0: 0 0          0 nan: 0 nan      1 0: inf 0         p inf: 0 pi/2      n nan: nan nan     inf p: 0 pi/2
        inf inf: 0 pi/2   inf nan: 0 nan    nan f: nan nan     nan inf: ~0 pi/2   nan nan: nan nan""",
    "cosh": """
        0 0: 1 0          0 inf: nan ~0     0 nan: nan ~0      n inf: nan nan     n nan: nan nan     inf 0: inf 0
        inf p: infcis     inf inf: inf nan  inf nan: inf nan   nan 0: nan ~0      nan -0: nan ~0     nan n: nan nan
        nan nan: nan nan  nan inf: nan nan""",
    "exp": """
        0 0: 1 0          -0 0: 1 0         f inf: nan nan     f nan: nan nan     inf 0: inf 0       -inf f: 0cis
        inf n: infcis     -inf inf: 0 ~0    inf inf: inf nan   -inf nan: 0 ~0     inf nan: inf nan   nan 0: nan 0
        nan n: nan nan    nan inf: nan nan  nan nan: nan nan""",
    "expm1": """
        0 0: 0 0          f inf: nan nan    f nan: nan nan     inf 0: inf 0       inf n: infcis      -inf f: -1cis
        -inf inf: -1 ~0   inf inf: inf nan  -inf nan: -1 ~0    inf nan: inf nan   nan 0: nan 0       nan n: nan nan
        nan inf: nan nan  nan nan: nan nan""",
    "log": """
        -0 0: -inf pi     0 0: -inf 0       f inf: inf pi/2    f nan: nan nan     -inf p: inf pi     inf p: inf 0
        -inf inf: inf 3pi/4                 inf inf: inf pi/4  inf nan: inf nan   -inf nan: inf nan
        nan f: nan nan    nan inf: inf nan  nan nan: nan nan""",
    "log1p": """
        -1 0: -inf 0      f inf: inf pi/2   f nan: nan nan     -inf p: inf pi     inf p: inf 0
        -inf inf: inf 3pi/4                 inf inf: inf pi/4  inf nan: inf nan   -inf nan: inf nan
        nan f: nan nan    nan inf: inf nan  nan nan: nan nan""",
    "sinh": """
        0 0: 0 0          0 inf: ~0 nan     0 nan: ~0 nan      p inf: nan nan     p nan: nan nan     inf 0: inf 0
        inf p: infcis     inf inf: ~inf nan inf nan: ~inf nan  nan 0: nan 0       nan n: nan nan
        nan nan: nan nan""",
    "sqrt": """
        0 0: 0 0          -0 0: 0 0         f inf: inf inf     inf inf: inf inf   -inf inf: inf inf  nan inf: inf inf
        f nan: nan nan    -inf p: 0 inf     inf p: inf 0       -inf nan: nan ~inf inf nan: inf nan   nan f: nan nan
        nan nan: nan nan""",
    "tanh": """
        0 0: 0 0          n inf: nan nan    0 inf: 0 nan       n nan: nan nan     0 nan: 0 nan       inf p: 1 0sin2y
        inf inf: 1 ~0     inf nan: 1 ~0     nan 0: nan 0       nan n: nan nan     nan nan: nan nan""",
}
ROW = re.compile(r"(\S+) (\S+): (\S*cis|\S+ \S+)")
TURNED = {"asin": "asinh", "atan": "atanh", "sin": "sinh", "tan": "tanh"}  # f(z) is -i g(iz); cos(z) is cosh(iz)
BASES = {"log2": 2.0, "log10": 10.0}
ODD, EVEN = {"asinh", "atanh", "sinh", "tanh"}, {"cosh"}
NUMBERS = {
    "f": (0.0, -0.0, 0.5, -3.0, 200.0, 2.0**100),
    "n": (0.5, -3.0, 200.0, -(2.0**100)),
    "p": (0.5, 3.0, 200.0, 2.0**100),
}


def _number(text: str) -> float:
    """A number of the table."""
    if "pi" not in text:
        return float(text)
    times, _, over = text.partition("pi")
    return float(times or 1) * math.pi / float(over.removeprefix("/") or 1)


def _parts(result: str, y: float) -> list[str | float]:
    """The two parts of a result: numbers, or texts where a sign is open."""
    if result.endswith("cis"):
        size = result.removesuffix("cis")
        cis = [math.cos(y), math.sin(y)]
        if size == "-1":
            return [-1.0, math.copysign(0.0, cis[1])]
        return [math.copysign(float(size), part) if part else part for part in cis]
    if result == "1 0sin2y":
        return [1.0, math.copysign(0.0, math.sin(2 * y))]
    return [f"~{_number(part[1:])}" if part.startswith("~") else _number(part) for part in result.split()]


def _cases(name: str) -> list[tuple[complex, list[str | float]]]:
    """(operand, parts of the result) of each row, with all that follows by symmetry."""
    found = []
    for *operand, result in ROW.findall(TABLE[name]):
        real, imaginary = (NUMBERS.get(part) or (_number(part),) for part in operand)
        for x, y in itertools.product(real, imaginary):
            a, b = _parts(result, y)
            found += [(complex(x, y), [a, b]), (complex(x, -y), [a, _negated(b)])]
            if name in ODD:
                found += [(complex(-x, y), [_negated(a), b]), (complex(-x, -y), [_negated(a), _negated(b)])]
            elif name in EVEN:
                found += [(complex(-x, y), [a, _negated(b)]), (complex(-x, -y), [a, b])]
    return found


def _negated(part: str | float) -> str | float:
    return part if isinstance(part, str) else -part


def _fits(found: float, wanted: str | float) -> bool:
    """Whether a part is the one that is wanted, with its sign where that is not open."""
    if isinstance(wanted, str):
        return _fits(abs(found), float(wanted.removeprefix("~")))
    if math.isnan(wanted) or math.isnan(found):
        return math.isnan(wanted) and math.isnan(found)
    if wanted == 0 or math.isinf(wanted) or wanted in (1.0, -1.0):
        return found == wanted and math.copysign(1.0, found) == math.copysign(1.0, wanted)
    return math.isclose(found, wanted, rel_tol=1e-6)


def _times(z: complex, turn: complex) -> complex:
    """z times i or -i, exactly: a product of Python's makes NaN of infinities."""
    return complex(-z.imag, z.real) if turn == 1j else complex(z.imag, -z.real)


def _wrong(name: str, dtype: str) -> list[str]:
    """Each case of the table in which the array API's function gives something else."""
    if name in TURNED:
        cases = [(_times(z, -1j), parts) for z, parts in _cases(TURNED[name])]
    elif name == "cos":
        cases = [(_times(z, -1j), parts) for z, parts in _cases("cosh")]
    else:
        cases = _cases("log" if name in BASES else name)
    found = getattr(xp, name)(xp.asarray(np.array([z for z, _ in cases], dtype))).numpy()
    wrong = []
    for (z, (a, b)), value in zip(cases, found.tolist(), strict=True):
        value = _times(value, 1j) if name in TURNED else value
        scale = math.log(BASES[name]) if name in BASES else 1.0
        if not (_fits(value.real * scale, a) and _fits(value.imag * scale, b)):
            wrong.append(f"{name}({z}) is {value}, not {a} {b}")
    return wrong


@pytest.mark.parametrize("name", [*TABLE, *TURNED, *BASES, "cos"])
def test_1_19_special_values_are_those_of_annex_g(name: str) -> None:
    """As `cosh(inf+0j)`, in both dtypes; those made of others in one."""
    assert _wrong(name, "complex128") == []
    assert name not in TABLE or _wrong(name, "complex64") == []


def test_1_19_the_table_is_what_cmath_has() -> None:
    """So the table itself has no error: Python's cmath follows Annex G, but for errors that it raises for poles. The
    acosh and the tanh of 0 + NaN i are those of C17.
    """
    for name in set(TABLE) - {"expm1", "log1p"}:
        for z, (a, b) in _cases(name):
            if name in ("acosh", "tanh") and z.real == 0 and not math.isfinite(z.imag):
                continue
            try:
                value = getattr(cmath, name)(z)
            except (ValueError, OverflowError):
                continue
            assert _fits(value.real, a) and _fits(value.imag, b), (name, z, value, a, b)


def test_1_19_powers_of_zero() -> None:
    """A brother: they were 0, whatever the power; left of the imaginary axis they are infinite, as 1 / 0 is."""
    powers = np.array([2.5, 1 + 1j, 0, -1.5, -1 + 1j, 1j])
    found = (Tensor(np.zeros(6, "complex128")) ** Tensor(powers)).numpy()
    assert found[:3].tolist() == [0, 0, 1]
    assert np.isinf(found[3:5].real).all() and np.isnan(found[3:].imag).all() and np.isnan(found[5].real)
    assert np.isinf((Tensor([0j]) ** -1.5).numpy().real).all() and (Tensor([0j]) ** 0.5).tolist() == [0]


def test_1_19_magnitudes_beyond_the_largest_number() -> None:
    """A brother: where |z| is no float sqrt and log were infinite; atanh was 0 where its square is none."""
    for dtype, large in (("complex128", 1.7e308), ("complex64", 3.4e38)):
        z = np.array([complex(large, large), complex(-large, large)], dtype)
        for name in ("sqrt", "log"):
            wanted = getattr(np, name)(z.astype("clongdouble"))
            found = getattr(xp, name)(Tensor(z)).numpy()
            np.testing.assert_allclose(found / wanted, 1, rtol=4e-7 if dtype == "complex64" else 1e-15)
    np.testing.assert_allclose(xp.atanh(Tensor(np.array([1e200 + 1e190j]))).numpy(), [1e-200 + 1j * math.pi / 2])


@pytest.mark.parametrize("settings", [
    {}, {"CPU_COMPILER": "llvm"}, pytest.param({"CPU_COMPILER": "c"}, marks=pytest.mark.needs("cc")), {"DEV": "PYTHON"},
    pytest.param({"DEV": "OPENCL"}, marks=pytest.mark.needs("opencl")),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("first", [1.0, -1.0])
def test_1_18_constants_keep_the_sign_of_a_nan(settings: dict[str, Any], first: float, tmp_path: Path) -> None:
    """In kernels too, whichever of the two was compiled first and lies in a cache."""
    with Context(TINYGRAFT_CACHE=str(tmp_path), **settings):
        chosen = Tensor([1.0, 2.0]).realize() > 0
        for nan in (math.copysign(math.nan, first), math.copysign(math.nan, -first)):
            negative = math.copysign(1.0, nan) < 0
            assert Tensor(nan).signbit().item() is negative
            assert Tensor.full((2,), nan).contiguous().signbit().tolist() == [negative] * 2
            assert np.signbit(chosen.where(Tensor(nan), 0.0).numpy()).tolist() == [negative] * 2


def test_1_18_the_sign_of_a_nan_is_kept() -> None:
    """That of Python's and NumPy's, on the way through casts, and by copysign."""
    nan = float("nan")
    for dtype in (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16):
        assert [Tensor(v, dtype=dtype).signbit().item() for v in (nan, -nan)] == [False, True]
        assert Tensor([nan, -nan], dtype=dtype).signbit().tolist() == [False, True]
    given = Tensor(np.array([nan, -nan], "float32"))
    assert given.signbit().tolist() == (-given).signbit().logical_not().tolist() == [False, True]
    assert given.cast("float64").signbit().tolist() == given.cast("float16").signbit().tolist() == [False, True]
    assert given.copysign(Tensor([-1.0, 1.0])).signbit().tolist() == [True, False]
    assert Tensor([1.0, 1.0]).copysign(given).tolist() == [1.0, -1.0]


def test_2_4_expand_dims_takes_its_axis_by_place() -> None:
    """As NumPy's does."""
    x = xp.asarray([1.0, 2.0])
    assert xp.expand_dims(x, 0).shape == xp.expand_dims(x, axis=0).shape == (1, 2)
    assert xp.expand_dims(x, (0, -1)).shape == (1, 2, 1)


def _alike(found: object, wanted: object) -> bool:
    if isinstance(wanted, Tensor):
        return isinstance(found, Tensor) and found.dtype is wanted.dtype and found.isclose(wanted).all().item()
    return found is wanted or bool(np.array_equal(found, wanted))


def test_methods_through_the_class_take_complex_numbers() -> None:
    """`Tensor.exp(z)` raised where `z.exp()` works. The list of such methods is whole."""
    z = Tensor([1 + 2j, 0.5 - 1j])
    load_all(Tensor)
    own = {name for cls in type(z).__mro__[: type(z).__mro__.index(Tensor)] for name in vars(cls)}
    methods = {name for name in own if name[0] != "_" and not isinstance(vars(Tensor).get(name), property)}
    methods = {name for name in methods if callable(inspect.getattr_static(Tensor, name, None))}
    assert methods - {"detach"} == set(WITH_FORMS)
    for name in ("abs", "exp", "log", "tanh", "mean", "var", "isnan", "round", "clone", "numpy", "sign"):
        assert _alike(getattr(Tensor, name)(z), getattr(z, name)())
        assert _alike(getattr(Tensor, name)(z.real), getattr(z.real, name)())
    assert Tensor.isclose(z, z).all().item() and Tensor.l1_loss(z, z).item() == 0
    assert z.sequential([Tensor.tanh, Tensor.exp]).isclose(z.tanh().exp()).all().item()
    assert Tensor.exp is Tensor.exp and pickle.loads(pickle.dumps(Tensor.exp)) is Tensor.exp


def test_a_real_number_on_the_left_of_a_complex_one() -> None:
    """isclose, allclose, ldexp, logaddexp and pairwise_distance raised; on the right they worked."""
    r, z = Tensor([1.0, 2.0]), Tensor([1 + 2j, 2.0])
    assert r.isclose(z).tolist() == z.isclose(r).tolist() == [False, True] and not r.allclose(z)
    a, b = r.numpy(), z.numpy()
    np.testing.assert_allclose(r.ldexp(z).numpy(), a * np.exp2(b), rtol=1e-6)
    np.testing.assert_allclose(r.logaddexp(z).numpy(), np.log(np.exp(a) + np.exp(b)), rtol=1e-6)
    assert abs(r.pairwise_distance(z).item() - 2.0) < 1e-5


def test_dropout_of_complex_numbers() -> None:
    """Both parts are dropped together; requires_grad stays what it was."""
    z = Tensor(np.full((64, 3, 2), 1 + 2j))
    with Tensor.train():
        for found in (z.dropout(0.5), z.dropout1d(0.5)):
            assert set(found.flatten().tolist()) == {0, 2 + 4j}
        dropped = Tensor([1j, 2.0], requires_grad=False).dropout()
    assert dropped.requires_grad is False and Tensor.ones(3).dropout(training=True).requires_grad is None


def test_what_is_not_for_complex_numbers_says_so() -> None:
    """Function, jacobian and hessian failed somewhere inside."""

    class Square(Function):
        def forward(self, x: Tensor) -> Tensor:
            return x * x

    z = Tensor([1 + 2j])
    with pytest.raises(DTypeError, match=r"^Square.apply takes real tensors, argument 0 is dtypes.complex64 of shape"):
        Square.apply(z)
    with pytest.raises(DTypeError, match=r"^jacobian of <lambda>, which gives complex numbers, by complex numbers: "):
        jacobian(lambda t: t * t)(z)
    with pytest.raises(DTypeError, match=r"^jacobian of <lambda>, which gives complex numbers, by complex numbers: "):
        hessian(lambda t: t.abs().square().sum())(z)
    assert jacobian(lambda t: t * 1j)(Tensor([1.0, 2.0])).tolist() == [[1j, 0], [0, 1j]]
    assert jacobian(lambda t: t.abs().square())(z).tolist() == [[2 + 4j]]
    for name in ("erf", "lgamma", "i0", "softmax", "sort", "median"):
        with pytest.raises(DTypeError, match=f"^{name} is not defined for dtypes.complex64\n  made at "):
            getattr(z, name)()


def _slope(loss: Callable[[Tensor], Tensor], at: Array, towards: Array) -> tuple[float, float]:
    """The derivative of loss in a direction: by its gradient, and by a difference."""
    x = Tensor(at, requires_grad=True)
    (gradient,) = loss(x).gradient(x)
    up, down = (loss(Tensor(at + step * towards)).item() for step in (1e-5, -1e-5))
    return float((gradient.numpy().conj() * towards).sum().real), (up - down) / 2e-5


def _complex(*shape: int) -> Array:
    rng = np.random.default_rng(len(shape) + sum(shape))
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


@pytest.mark.slow
def test_2_4_svd_of_complex_matrices() -> None:
    """It was refused. Vectors, values and gradients, of those with more rows and with more columns."""
    a, w = _complex(3, 2), _complex(3, 3)
    for matrix, whole in ((a, True), (a.T, False)):
        u, s, v = (t.numpy() for t in _together(*Tensor(matrix).svd(full_matrices=whole)))
        assert s.dtype == "float64" and u.dtype == v.dtype == "complex128"
        np.testing.assert_allclose(s, np.linalg.svd(matrix, compute_uv=False), atol=1e-14)
        np.testing.assert_allclose((u[:, :2] * s) @ v[:2], matrix, atol=1e-14)
        for square in (u.conj().T @ u, v @ v.conj().T):
            np.testing.assert_allclose(square, np.eye(len(square)), atol=1e-14)

    def loss(x: Tensor) -> Tensor:
        u, s, v = x.svd(full_matrices=False)
        mixed = (u * (s * s * s)) @ v
        sides = (u.T @ Tensor(w)).abs().square().sum(1) + (v @ Tensor(w[:2, :2])).abs().square().sum(1)
        return (mixed * Tensor(w[:, :2])).sum().real + (sides * Tensor(np.array([1.0, 3.0]))).sum() + s[0]

    found, wanted = _slope(loss, a, _complex(3, 2)[::-1])
    assert abs(found - wanted) < 1e-7 * abs(wanted)


@pytest.mark.slow
def test_2_4_eigh_of_complex_matrices() -> None:
    """Vectors and gradients were not there; nor was a pseudo-inverse by them."""
    a, w = _complex(2, 2), _complex(2, 3)
    hermitian = a + a.conj().T
    for given, triangle in ((np.tril(hermitian), "L"), (np.triu(hermitian), "U")):
        values, vectors = (t.numpy() for t in _together(*Tensor(given).eigh(triangle)))
        np.testing.assert_allclose(values, np.linalg.eigvalsh(hermitian), atol=1e-14)
        np.testing.assert_allclose(hermitian @ vectors, vectors * values, atol=1e-13)
        np.testing.assert_allclose(vectors.conj().T @ vectors, np.eye(2), atol=1e-14)

    def loss(x: Tensor) -> Tensor:
        values, vectors = x.eigh()
        sides = (vectors.mH @ Tensor(w)).abs().square().sum(1)
        return (sides * Tensor(np.array([1.0, 3.0]))).sum() + (values * values * values).sum()

    found, wanted = _slope(loss, hermitian, np.array([[1, 1 + 2j], [1 - 2j, -2]]))
    assert abs(found - wanted) < 1e-7 * abs(wanted)
    np.testing.assert_allclose(Tensor(w).pinv().numpy(), np.linalg.pinv(w), atol=1e-14)


def _together(*tensors: Tensor) -> Sequence[Tensor]:
    """Tensors, computed in one schedule."""
    tensors[0].realize(*tensors[1:])
    return tensors


def test_1_19_second_derivatives_on_the_real_axis() -> None:
    """A brother: there the formulas choose between sides, so no derivative may be made of a formula. Powers had one."""
    x = np.array([0.5, 2.0])
    functions: list[Callable[[Tensor], Tensor]] = [Tensor.exp, Tensor.cosh, Tensor.sin, lambda t: t**2.5]
    wanted = [np.exp(x), np.cosh(x), -np.sin(x), 2.5 * 1.5 * x**0.5]
    found = []
    for function in functions:
        z = Tensor(x + 0j, requires_grad=True)
        (slope,) = function(z).sum().real.gradient(z)
        found += [(slope * turn).sum().real.gradient(z)[0] for turn in (1.0, 1j)]
    for second, value in zip(_together(*found), np.repeat(wanted, 2, axis=0), strict=True):
        np.testing.assert_allclose(np.abs(second.numpy()), np.abs(value), rtol=1e-12)
