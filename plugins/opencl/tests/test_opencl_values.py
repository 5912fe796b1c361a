"""Values in work-groups, without exact division, and of half types have the bits of PYTHON and numpy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinygraft.conformance.corpus import apply, edges, operands, ops_on
from tinygraft.conformance.kernels import run_map
from tinygraft.dtype import DType, bits_of, dtypes
from tinygraft.reference.python import PythonBackend
from tinygraft.uop.ops import FUNCTIONS, Ops
from tinygraft_opencl.device import OpenCLBackend
from tinygraft_opencl.dialect import opencl_renderer

pytestmark = pytest.mark.needs("opencl")
ROUGH = FUNCTIONS | {Ops.POW}  # whose last bits a device may choose: the conformance kit checks them


def differences(backend: OpenCLBackend, ops: list[Ops], dtype: DType) -> list[str]:
    """Where a backend gives other bits than PYTHON, for operands of all edge values; NaNs and equal zeros are alike."""
    by_inputs: dict[Any, list[Ops]] = {}
    for op in ops:
        by_inputs.setdefault(operands(op, dtype), []).append(op)
    found = []
    for inputs, some in by_inputs.items():
        builds = [lambda *s, op=op: apply(op, *s) for op in some]
        columns = list(zip(*(values for _, values in inputs), strict=True))
        results = run_map(backend, builds, inputs), run_map(PythonBackend("PYTHON", 0), builds, inputs)
        for op, got, want in zip(some, *results, strict=True):
            result = dtypes.bool if op in (Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE) else dtype
            found += [
                f"{op.name} {dtype.name} {place}: got {g!r}, expected {w!r}"
                for place, g, w in zip(columns, got, want, strict=True)
                if not same(g, w, result, op)
            ]
    return found


def same(got: Any, want: Any, dtype: DType, op: Ops) -> bool:
    """Whether two results are the same."""
    if got != got or want != want:
        return got != got and want != want
    if op in (Ops.MAX, Ops.MIN) and got == want:
        return True
    return bits_of(got, dtype) == bits_of(want, dtype)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16, dtypes.int32, dtypes.uint16], ids=lambda d: d.name)
def test_groups_of_threads_give_the_bits_of_python(groups: OpenCLBackend, dtype: DType) -> None:
    """Every exact op on a dtype, in work-groups: the kernels of a GPU, run here."""
    assert differences(groups, [op for op in ops_on(dtype) if op not in ROUGH], dtype) == []


@contextmanager
def rough(backend: OpenCLBackend, has_double: bool) -> Iterator[None]:
    """The backend as if its device did not round / and sqrt correctly, and as if it had no double."""
    target, renderer = backend.target, backend.renderer
    if not has_double:
        computed = target.compute_dtypes - {dtypes.float64}
        backend.target = replace(target, native_ops=target.native_ops - {Ops.SQRT}, compute_dtypes=computed)
    backend.renderer = opencl_renderer(backend.target, exact=False)
    try:
        yield
    finally:
        backend.target, backend.renderer = target, renderer


@pytest.mark.parametrize(
    ("dtype", "has_double"), [(dtypes.float32, True), (dtypes.float64, True), (dtypes.float32, False)], ids=str
)
def test_division_and_root_without_the_device_are_exact(backend: OpenCLBackend, dtype: DType, has_double: bool) -> None:
    """A device that does not round / and sqrt of floats correctly gets both right all the same."""
    with rough(backend, has_double):
        assert differences(backend, [Ops.FDIV, Ops.SQRT, Ops.RECIPROCAL], dtype) == []


@pytest.mark.parametrize("has_double", [True, False])
def test_quotients_of_any_floats_are_exact_without_the_device(loops: OpenCLBackend, has_double: bool) -> None:
    """Random bits, subnormal and huge ones among them, are divided as numpy divides them."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, (2, 20_000), dtype=np.uint64).astype(np.uint32)
    x, y = bits.view(np.float32)
    with np.errstate(all="ignore"):
        y[::3] = x[::3] * np.float32(1e38)  # quotients that are subnormal
    with rough(loops, has_double):
        inputs = ((dtypes.float32, x.tolist()), (dtypes.float32, y.tolist()))
        (got,) = run_map(loops, [lambda a, b: a.alu(Ops.FDIV, b)], inputs)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.array(got, np.float32), x / y)


def test_every_half_widens_and_comes_back(backend: OpenCLBackend) -> None:
    """All 65,536 bit patterns of a half are the float that numpy makes of them, and that float is the half again."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide, again = run_map(
        backend,
        [lambda h: h.cast(dtypes.float32), lambda h: h.cast(dtypes.float32).cast(dtypes.float16)],
        ((dtypes.float16, halves.tolist()),),
    )
    np.testing.assert_array_equal(np.array(wide, np.float32), halves.astype(np.float32))
    np.testing.assert_array_equal(np.array(again, np.float16), halves)


def test_floats_round_to_the_nearest_even_half(backend: OpenCLBackend) -> None:
    """Ties, their neighbours, subnormal results and overflow round as numpy does, in one step from double too."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)[::7]
    ties = (halves[:-1] + halves[1:]) / 2
    exact = np.concatenate([ties, np.nextafter(ties, 0), np.nextafter(ties, 1e9), [65519.99, 65520.0, 1e9, np.inf]])
    floats = exact.astype(np.float32)
    (from_double,) = run_map(backend, [lambda x: x.cast(dtypes.float16)], ((dtypes.float64, exact.tolist()),))
    (from_float,) = run_map(backend, [lambda x: x.cast(dtypes.float16)], ((dtypes.float32, floats.tolist()),))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(np.array(from_double, np.float16), exact.astype(np.float16))
        np.testing.assert_array_equal(np.array(from_float, np.float16), floats.astype(np.float16))


def test_every_edge_is_cast_to_every_dtype(groups: OpenCLBackend) -> None:
    """Casts between all dtypes, in work-groups, have PYTHON's values."""
    for old in dtypes.all:
        builds = [lambda x, new=new: x.cast(new) for new in dtypes.all if new is not old]
        inputs = ((old, edges(old)),)
        got, want = run_map(groups, builds, inputs), run_map(PythonBackend("PYTHON", 0), builds, inputs)
        for new, ours, theirs in zip([d for d in dtypes.all if d is not old], got, want, strict=True):
            wrong = [
                (x, a, b) for x, a, b in zip(edges(old), ours, theirs, strict=True) if not same(a, b, new, Ops.CAST)
            ]
            assert wrong == [], f"{old!r} to {new!r}"


def test_a_device_without_double_has_no_float64(groups: OpenCLBackend) -> None:
    """A device that reports no double configuration has no float64, neither stored nor computed."""
    from tinygraft_opencl.device import divides_exactly, target_of

    class Without:
        double_fp_config = 0
        extensions = "cl_khr_fp16"

        def __getattr__(self, name: str) -> Any:
            return getattr(groups.device, name)

    target = target_of(Without(), work_groups=True)
    assert dtypes.float64 not in target.dtypes | target.compute_dtypes
    assert dtypes.float16 in target.compute_dtypes
    by_doubles = set() if divides_exactly(groups.device) else {Ops.SQRT}  # how an inexact device rounds it correctly
    assert target.native_ops == groups.target.native_ops - by_doubles
    aside = {"compute_dtypes": frozenset(), "dtypes": frozenset(), "native_ops": frozenset()}
    assert replace(target, **aside) == replace(groups.target, **aside)
