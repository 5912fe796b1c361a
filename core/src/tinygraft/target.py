"""Target: what a device can do, as data. Scheduler and codegen read this and do not depend on which device it is.

Every default is the least capable value, so that an omitted field costs speed and never correctness.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import names_fields
from tinygraft.uop.ops import Ops
from tinygraft.uop.units import MatrixUnit

# given: every renderer writes these, and rules/decompose.py writes all other ops in terms of them
BASIC_OPS = frozenset({
    Ops.CAST, Ops.BITCAST, Ops.NEG, Ops.NOT, Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE,
    Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.WHERE, Ops.IDIV, Ops.MOD,
})  # fmt: skip
# given: undefined behaviour in C for some operands (float to integer out of range, division by 0, shifts by the width)
CHECKED_OPS = frozenset({Ops.CAST, Ops.IDIV, Ops.MOD, Ops.SHL, Ops.SHR})
# without float16, bfloat16 and fp8: where a device only stores them, operations are widened to float32
COMPUTED = frozenset((dtypes.bool, *dtypes.ints, dtypes.float32, dtypes.float64))


@names_fields
@dataclass(frozen=True, slots=True)
class DeclaredRoutine:
    """A routine of uop/routines.py that a device brings itself, and for which dtypes of its first operand.

    `least` and `most` are the numbers of elements of an example between which it is the faster way (most 0: no bound).
    `epilogue` are the ops that it applies to results before it stores them (uop/epilogues.py), of those that have one.
    """

    name: str
    dtypes: tuple[DType, ...]
    least: int = 0
    most: int = 0
    epilogue: tuple[Ops, ...] = ()


@names_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A device in numbers. Sizes of memory are bytes. `docs/device-fields.md` shows this list as a table.

    - `arch`: the whole description that a compiler needs, as text. It is part of every cache key.
    - `dtypes`: what can be stored. A kernel that needs another raises UnsupportedError.
    - `compute_dtypes`: what can be computed with. Smaller floats that are only stored are widened to float32
      for each operation; any other dtype that is missing raises UnsupportedError.
    - `native_ops`: the ops that the renderer can write, with our meaning for every operand.
      `rules.decompose` writes the others in terms of BASIC_OPS, which every renderer has. The CHECKED_OPS among
      those are given operands for which plain C does the same (float to integer in range, division of
      non-negative by positive, shifts below the width), unless they are listed here.
    - `vector_bytes`: the width of a vector register; 0 where the renderer has no vectors.
    - `registers`: how many registers there are: of vectors, or of a thread of a thread block.
    - `matrix`: the instructions that multiply small matrices (MatrixUnit), the preferred ones first.
    - `chunks`: how many threads divide the PARALLEL ranges of a kernel; each of its launches is then run once for
      each chunk, as `Signature.chunked` says.
    - `grid_dims`: how many dimensions of thread blocks there are, at most 3; 0 where there are none.
    - `max_grid`: the most thread blocks along each dimension. Longer loops run in steps.
    - `block_threads`: the most threads in a thread block.
    - `shared_memory`: memory that the threads of a block share.
    - `local_memory`: scratch memory of one thread of a kernel without thread blocks, for packed operands; 0 for
      none.
    - `l2_bytes`: the second cache of a core, which tiles are made to fit.
    - `l3_bytes`: the last cache, before memory.
    - `stream_bytes`: the size of an output above which it may be stored past the caches; 0 for never.
    - `fused_sums`: whether FMA is an instruction, so that sums of products are accumulated by it.
    - `subnormals`: whether subnormal numbers of float32, float64 and bfloat16 are kept. Where they are not, an
      operation may take one for 0, and give 0 in place of one.
    - `max_params`: the most buffers of a kernel. The scheduler stays some below.
    - `max_ops`: the most operations of a kernel, about: longer chains are stored on the way, most of them at
      half of it.
    - `alignment`: where memory and the parts of it begin, in bytes.
    - `routines`: what `Backend.routine` computes, such as sort, for which dtypes (DeclaredRoutine); kernels compute all
      others.
    - `gathers`: the sizes in bytes of elements of which one instruction loads a vector, from an address for each lane.
    - `branches`: whether what WHEREs choose rarely is behind a branch: some rules have a cheap path then.
    - `multipliers`: how many vectors a core is known to multiply in a cycle; 0 where that is not known.
    """

    arch: str = ""
    dtypes: frozenset[DType] = frozenset(dtypes.all)
    compute_dtypes: frozenset[DType] = COMPUTED
    native_ops: frozenset[Ops] = BASIC_OPS - CHECKED_OPS
    vector_bytes: int = 0
    registers: int = 16
    matrix: tuple[MatrixUnit, ...] = ()
    chunks: int = 1
    grid_dims: int = 0
    max_grid: tuple[int, int, int] = (65535, 65535, 65535)
    block_threads: int = 1
    shared_memory: int = 0
    local_memory: int = 0
    l2_bytes: int = 1 << 20
    l3_bytes: int = 16 << 20
    stream_bytes: int = 0
    fused_sums: bool = False
    subnormals: bool = True
    max_params: int = 64
    max_ops: int = 4000
    alignment: int = 16
    routines: tuple[DeclaredRoutine, ...] = ()
    gathers: tuple[int, ...] = ()
    branches: bool = False
    multipliers: int = 0

    def __post_init__(self) -> None:
        """Refuse what no device can be, with the field; sets and lists become the frozensets and tuples of the fields.

        Raises TypeError for another type, ValueError for a number that cannot be.
        """
        for name, kind in _MEMBERS.items():
            object.__setattr__(self, name, _members(name, getattr(self, name), kind))
        for name in _FLAGS:
            if not isinstance(value := getattr(self, name), bool):
                raise TypeError(f"Target needs {name} to be True or False, got {value!r}")
        if not isinstance(self.arch, str):
            raise TypeError(f"Target needs arch to be text, got {self.arch!r}")
        for name, (least, most) in _NUMBERS.items():
            _check_number(name, getattr(self, name), least, most)
        for name in ("max_grid", "gathers"):
            for number in getattr(self, name):
                _check_number(name, number, 1, None)
        if len(self.max_grid) != 3:
            raise ValueError(f"Target needs max_grid to be three numbers, got {self.max_grid!r}")
        for name in ("vector_bytes", "alignment"):
            if (number := getattr(self, name)) & (number - 1):
                either = "0 or a power of two" if name == "vector_bytes" else "a power of two"
                raise ValueError(f"Target needs {name} to be {either}, got {number}")

    def has_routine(self, name: str, dtype: DType, elements: int) -> bool:
        """Return whether the device brings the routine `name` for examples of so many elements of `dtype`."""
        for known in self.routines:
            if known.name == name and dtype in known.dtypes:
                return known.least <= elements and (not known.most or elements <= known.most)
        return False

    def epilogue_of(self, name: str) -> tuple[Ops, ...]:
        """Return the ops that the device's routine `name` applies to its results before it stores them."""
        return next((known.epilogue for known in self.routines if known.name == name), ())

    def text(self) -> str:
        """Return all fields as text: equal for equal Targets, in every process, and so part of keys on disk."""
        found = []
        for field in fields(self):
            value = getattr(self, field.name)
            # sorted: the order of a set depends on the process's hash seed
            named = sorted(item.name for item in value) if isinstance(value, frozenset) else value
            found.append(f"{field.name}={named!r}")
        return " ".join(found)


# field -> what its frozenset or tuple has
_MEMBERS: dict[str, type] = {
    "dtypes": DType, "compute_dtypes": DType, "native_ops": Ops, "matrix": MatrixUnit, "routines": DeclaredRoutine,
    "max_grid": int, "gathers": int,
}  # fmt: skip
_FLAGS = ("fused_sums", "subnormals", "branches")
# field -> the least value and the most
_NUMBERS: dict[str, tuple[int, int | None]] = {
    "vector_bytes": (0, None), "registers": (1, None), "multipliers": (0, None), "chunks": (1, None),
    "grid_dims": (0, 3), "block_threads": (1, None), "shared_memory": (0, None), "local_memory": (0, None),
    "l2_bytes": (0, None), "l3_bytes": (0, None), "stream_bytes": (0, None), "max_params": (1, None),
    "max_ops": (1, None), "alignment": (1, None),
}  # fmt: skip


def _members(name: str, value: object, kind: type) -> frozenset[object] | tuple[object, ...]:
    """Return the value of a field that has several members, as its frozenset or tuple. Raises TypeError for others."""
    wanted = frozenset if name in ("dtypes", "compute_dtypes", "native_ops") else tuple
    if not isinstance(value, (set, frozenset, list, tuple)):
        raise TypeError(f"Target needs {name} to be a {wanted.__name__} of {kind.__name__}, got {value!r}")
    if wrong := [member for member in value if not isinstance(member, kind)]:
        raise TypeError(f"Target needs {name} to be a {wanted.__name__} of {kind.__name__}, got {wrong[0]!r} in it")
    return wanted(value)


def _check_number(name: str, value: object, least: int, most: int | None) -> None:
    """Raise TypeError where a field is no integer, ValueError where it is not from `least` to `most` (None: no end)."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"Target needs {name} to be an integer, got {value!r}")
    if value < least or (most is not None and value > most):
        bounds = f"{least} to {most}" if most is not None else f"at least {least}"
        raise ValueError(f"Target needs {name} to be {bounds}, got {value}")
