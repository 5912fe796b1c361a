"""Generated OpenCL C: golden source of both dialects, each of which the driver compiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tinygraft.codegen.lower import to_linear
from tinygraft.conformance.kernels import load, param, store
from tinygraft.conformance.linears import KERNELS
from tinygraft.dtype import dtypes
from tinygraft.target import Target
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.stages import Kernel, Linear
from tinygraft.uop.uop import UOp
from tinygraft_opencl.device import OpenCLBackend
from tinygraft_opencl.dialect import NATIVE_OPS, offline, opencl_renderer

PLAIN = Target(native_ops=NATIVE_OPS, vector_bytes=32, registers=16, chunks=4, local_memory=1 << 18, fused_sums=True)
GROUPS = Target(
    native_ops=NATIVE_OPS, grid_dims=3, block_threads=32, shared_memory=1 << 15, registers=64, fused_sums=True
)
TARGETS = {"loops": PLAIN, "groups": GROUPS}


def matmul(n: int, m: int, terms: int) -> Kernel:
    """A product of matrices of prime sizes."""
    i, j, k = UOp.range(n, 0), UOp.range(m, 1), UOp.range(terms, 2)
    a = load(param(1, dtypes.float32, n * terms), i * terms + k)
    b = load(param(2, dtypes.float32, terms * m), k * m + j)
    total = UOp(Ops.REDUCE, dtypes.float32, (a * b, k), ReduceArg(Ops.ADD))
    return Kernel(UOp(Ops.SINK, dtypes.void, (store(param(0, dtypes.float32, n * m), i * m + j, total),)))


def halves(size: int) -> Kernel:
    """x * y + x of float16, to bfloat16."""
    r = UOp.range(size, 0)
    x, y = (load(param(slot, dtypes.float16, size), r) for slot in (1, 2))
    value = (x * y + x).cast(dtypes.bfloat16)
    return Kernel(UOp(Ops.SINK, dtypes.void, (store(param(0, dtypes.bfloat16, size), r, value),)))


def quotients(size: int) -> Kernel:
    """sqrt(x) / y."""
    r = UOp.range(size, 0)
    x, y = (load(param(slot, dtypes.float32, size), r) for slot in (1, 2))
    value = x.alu(Ops.SQRT).alu(Ops.FDIV, y)
    return Kernel(UOp(Ops.SINK, dtypes.void, (store(param(0, dtypes.float32, size), r, value),)))


KINDS: dict[str, Callable[[], Kernel]] = {
    "matmul": lambda: matmul(67, 71, 101),
    "halves": lambda: halves(101),
    "quotients": lambda: quotients(101),
}


def source(kind: str, name: str) -> tuple[Linear, str]:
    """Lower and render a kernel for a Target of TARGETS; quotients for a device that does not round them correctly."""
    linear = to_linear(KINDS[name](), TARGETS[kind], name=name)
    return linear, opencl_renderer(TARGETS[kind], exact=name != "quotients").render(linear).text


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("kind", TARGETS)
def test_source_is_as_the_golden_file_says(kind: str, name: str, golden: Callable[[str, str], None]) -> None:
    """Products, halves and quotients, as loops and in work-groups; quotients without exact division."""
    golden(f"{name}.{kind}.cl", source(kind, name)[1])


@pytest.mark.needs("opencl")
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("kind", TARGETS)
def test_the_driver_compiles_it(kind: str, name: str, loops: OpenCLBackend) -> None:
    """What the golden files hold is OpenCL C."""
    linear, text = source(kind, name)
    rendered = replace(opencl_renderer(TARGETS[kind]).render(linear), text=text)
    assert loops.compiler.compile(rendered).data


def test_nothing_is_contracted_and_no_option_is_unsafe() -> None:
    """The pragma stands in every source."""
    for kind in TARGETS:
        assert "\n#pragma OPENCL FP_CONTRACT OFF\n" in source(kind, "matmul")[1]


def test_a_device_that_computes_halves_is_given_them() -> None:
    """With cl_khr_fp16 the type is half, without it the bits are widened and rounded."""
    target = replace(GROUPS, compute_dtypes=GROUPS.compute_dtypes | {dtypes.float16})
    text = opencl_renderer(target).render(to_linear(halves(101), target)).text
    assert "cl_khr_fp16 : enable" in text
    assert "__global const half *restrict data1" in text
    assert "vload_half" not in text
    emulated = source("groups", "halves")[1]
    assert "vload_half(0, (const half *)&bits)" in emulated
    assert "vstore_half_rte(x, 0, (half *)&bits)" in emulated


@pytest.mark.parametrize("name", KERNELS)
def test_hand_written_kernels_have_words_for_everything(name: str) -> None:
    """Each instruction of the linear form can be written in the dialect of its Target."""
    linear = KERNELS[name]()
    target = GROUPS if linear.signature.block_threads > 1 else PLAIN
    assert f") void {linear.name}(" in opencl_renderer(target).render(linear).text


@pytest.mark.needs("opencl")
def test_what_is_written_without_a_device_compiles(loops: OpenCLBackend) -> None:
    """Kernels for the Target of machines without a device run in work-groups, and a driver compiles them."""
    target, renderer = offline()
    linear = to_linear(matmul(67, 71, 101), target)
    assert linear.signature.block_threads > 1
    assert loops.compiler.compile(renderer.render(linear)).data
