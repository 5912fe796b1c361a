"""Target and the other declarations of a plugin: what cannot be is refused, and the field is named."""

from collections.abc import Callable

import pytest

from tinygraft.plugin import (
    BASIC_OPS,
    ApiRange,
    DeclaredRoutine,
    DeviceSpec,
    Dialect,
    MatrixUnit,
    MatrixWords,
    Ops,
    Probe,
    Target,
    dtypes,
)
from tinygraft.plugin.driver import DriverFacts


@pytest.mark.parametrize(("make", "kind", "sentence"), [
    (lambda: Target(vector_bytes=17), ValueError, "vector_bytes to be 0 or a power of two, got 17"),
    (lambda: Target(vector_bytes=-16), ValueError, "vector_bytes to be at least 0, got -16"),
    (lambda: Target(vector_bytes="16"), TypeError, "vector_bytes to be an integer, got '16'"),
    (lambda: Target(vector_bytes=16.0), TypeError, "vector_bytes to be an integer, got 16.0"),
    (lambda: Target(alignment=0), ValueError, "alignment to be at least 1, got 0"),
    (lambda: Target(alignment=24), ValueError, "alignment to be a power of two, got 24"),
    (lambda: Target(registers=0), ValueError, "registers to be at least 1, got 0"),
    (lambda: Target(chunks=0), ValueError, "chunks to be at least 1, got 0"),
    (lambda: Target(grid_dims=4), ValueError, "grid_dims to be 0 to 3, got 4"),
    (lambda: Target(block_threads=0), ValueError, "block_threads to be at least 1, got 0"),
    (lambda: Target(block_threads=True), TypeError, "block_threads to be an integer, got True"),
    (lambda: Target(shared_memory=-1), ValueError, "shared_memory to be at least 0, got -1"),
    (lambda: Target(max_grid=(1, 2)), ValueError, "max_grid to be three numbers, got (1, 2)"),
    (lambda: Target(max_grid=(1, 2, 0)), ValueError, "max_grid to be at least 1, got 0"),
    (lambda: Target(max_grid=65535), TypeError, "max_grid to be a tuple of int, got 65535"),
    (lambda: Target(native_ops=Ops.SQRT), TypeError, "native_ops to be a frozenset of Ops, got <Ops.SQRT"),
    (lambda: Target(native_ops={"SQRT"}), TypeError, "native_ops to be a frozenset of Ops, got 'SQRT' in it"),
    (lambda: Target(compute_dtypes=["float32"]), TypeError, "compute_dtypes to be a frozenset of DType, got 'float32'"),
    (lambda: Target(routines=("sort",)), TypeError, "routines to be a tuple of DeclaredRoutine, got 'sort' in it"),
    (lambda: Target(fused_sums=1), TypeError, "fused_sums to be True or False, got 1"),
    (lambda: Target(arch=90), TypeError, "arch to be text, got 90"),
])  # fmt: skip
def test_a_target_that_cannot_be(make: Callable[[], Target], kind: type[Exception], sentence: str) -> None:
    """A value of a wrong type, or one that no hardware has, is refused where it is written."""
    with pytest.raises(kind) as caught:
        make()
    assert str(caught.value).startswith(f"Target needs {sentence}")


def test_sets_and_lists() -> None:
    """Collections of another kind become those of the fields: Targets are compared, and are keys."""
    ops = BASIC_OPS | {Ops.SQRT}
    listed = Target(native_ops=set(ops), max_grid=[1, 2, 3], routines=[DeclaredRoutine("sort", (dtypes.float32,))])
    assert listed == Target(native_ops=ops, max_grid=(1, 2, 3), routines=(DeclaredRoutine("sort", (dtypes.float32,)),))
    assert hash(listed) == hash(listed)
    assert isinstance(listed.native_ops, frozenset)


@pytest.mark.parametrize(("make", "text"), [
    (lambda: Target(vector_byte=16), "Target() got an unexpected keyword argument 'vector_byte'~ 'vector_bytes'?"),
    (lambda: Dialect(call={}), "Dialect() got an unexpected keyword argument 'call'~ 'calls'?"),
    (lambda: MatrixWords(multiplies=""), "MatrixWords() got an unexpected keyword argument 'multiplies'~ 'multiply'?"),
    (lambda: Probe(ok=True, details=""), "Probe() got an unexpected keyword argument 'details'~ 'detail'?"),
    (lambda: DeclaredRoutine("sort", (), mots=3), "DeclaredRoutine() got an unexpected keyword argument 'mots'"),
    (lambda: DeviceSpec(nam="A"), "DeviceSpec() got an unexpected keyword argument 'nam'~ 'name'?"),
    (lambda: DriverFacts(functons={}), "DriverFacts() got an unexpected keyword argument 'functons'~ 'functions'?"),
    (lambda: Target(qqqqq=16), "'qqqqq'\n  hint: it has arch, dtypes, compute_dtypes, native_ops, vector_bytes"),
])  # fmt: skip
def test_a_field_that_is_misspelt(make: Callable[[], object], text: str) -> None:
    """An unknown field is answered with the one that was meant, in the words of all calls."""
    with pytest.raises(TypeError) as caught:
        make()
    assert text.replace("~", "\n  hint: did you mean") in str(caught.value)


def test_what_is_left_out() -> None:
    """Fields that are needed, and positions, are told by Python as ever."""
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'below'"):
        ApiRange((0, 1))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="missing"):
        MatrixUnit("a")  # type: ignore[call-arg]
