"""What a test of the kit may ask of a device, and when an opened device declares it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tinygraft.conformance import needs, since
from tinygraft.conformance.gate import ABILITIES, SIZES, Requirement, computes
from tinygraft.conformance.opened import Opened, open_device
from tinygraft.dtype import DType, dtypes
from tinygraft.reference.python import PythonBackend
from tinygraft.target import Target


@pytest.fixture(scope="module")
def opened() -> Opened:
    """The interpreter, as the kit finds it."""
    return open_device("python")


def with_target(opened: Opened, **changes: object) -> Opened:
    """The same device with another Target."""
    backend = PythonBackend("PYTHON", 0, replace(opened.target, **changes))  # type: ignore[arg-type]
    return replace(opened, backend=backend)


def test_a_need_has_one_name() -> None:
    """A dtype and both its names are one need; sizes keep their number."""
    assert needs("float16", dtypes.half, "half", block_threads=2).args == ("half", "half", "half")
    assert needs(block_threads=2).kwargs == {"block_threads": 2}
    assert str(Requirement("block_threads", 2)) == "block_threads>=2"
    assert since(1, 2).args == (1, 2)


@pytest.mark.parametrize("name", ["flying", "arch", "dtypes", "max_grid"])
def test_what_nobody_can_have_is_refused(name: str) -> None:
    """A misspelt need would skip its test on every device."""
    with pytest.raises(ValueError, match=f"no device can have '{name}'; a test needs a dtype or one of views"):
        needs(name)
    with pytest.raises(ValueError, match="no device can have"):
        needs(**{name: 1})


def test_the_sizes_are_the_numbers_of_the_target() -> None:
    """Those that are one number."""
    assert {
        "block_threads",
        "grid_dims",
        "chunks",
        "shared_memory",
        "local_memory",
        "vector_bytes",
        "stream_bytes",
    } <= SIZES
    assert not SIZES & {"arch", "dtypes", "matrix", "max_grid"}


@pytest.mark.parametrize(
    ("target", "dtype", "has"),
    [
        (Target(), dtypes.float64, True),
        (Target(dtypes=frozenset({dtypes.float32})), dtypes.float64, False),
        (Target(), dtypes.float16, True),  # stored, widened to float32
        (Target(compute_dtypes=frozenset({dtypes.int32})), dtypes.float16, False),
        (Target(dtypes=frozenset({dtypes.float32})), dtypes.float16, False),
        (Target(compute_dtypes=frozenset({dtypes.float32})), dtypes.float64, False),
        (Target(dtypes=frozenset(), compute_dtypes=frozenset()), dtypes.float32, True),  # of every device
    ],
)
def test_a_dtype_is_declared_to_be_computed_with(target: Target, dtype: DType, has: bool) -> None:
    """Stored, and computed with natively or as float32; the core profile counts as declared whatever is said."""
    assert computes(target, dtype) is has


def test_the_interpreter_has_what_it_writes(opened: Opened) -> None:
    """Abilities are read off the opened device: a method of its own is one."""
    has = {name for name in ABILITIES if Requirement(name).is_met(opened)}
    assert has == {"views", "host_view", "at_address", "survives_fork", "ordinals", "computes"}
    assert Requirement("block_threads", 1).is_met(opened)
    assert not Requirement("block_threads", 2).is_met(opened)
    assert Requirement("block_threads", 2).is_met(with_target(opened, block_threads=64))


@pytest.mark.parametrize("need", [Requirement("block_threads", 64), Requirement("double"), Requirement("half")])
def test_a_device_can_be_made_to_declare_it(opened: Opened, need: Requirement) -> None:
    """To find out whether it works undeclared."""
    poor = with_target(opened, dtypes=frozenset({dtypes.float32}), compute_dtypes=frozenset({dtypes.float32}))
    assert not need.is_met(poor)
    rich, names = need.pretend(poor.target), ("block_threads", "dtypes", "compute_dtypes")
    assert need.is_met(with_target(poor, **{name: getattr(rich, name) for name in names}))
    assert Requirement("views").pretend(poor.target) == poor.target


def test_what_is_not_there_has_a_reason() -> None:
    """A name that nobody provides has no record, and the registry's sentence."""
    found = open_device("nosuch")
    assert (found.record, found.backend, found.absent, found.count, found.is_core) == (None, None, False, 0, False)
    assert found.reason.startswith("no plugin provides a device NOSUCH")
