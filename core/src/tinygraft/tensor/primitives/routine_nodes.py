"""Routines in the tensor graph: whether the device of a tensor brings one, and its results as tensors.

The choice is made when the graph is: by the Target of the tensor's device and ROUTINES. Sharded tensors, symbolic
sizes and tensors without elements are left to kernels, but for graphs that are written to a file (`written_out`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from tinygraft.autograd.walk import gradient
from tinygraft.config import ROUTINES, Context
from tinygraft.device.registry import Device
from tinygraft.dtype import DType
from tinygraft.errors import DeviceError
from tinygraft.helpers import prod
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.custom import with_derivative
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.uop.held import LEAVES, memory_base
from tinygraft.uop.ops import Ops, RoutineArg
from tinygraft.uop.routines import results_of
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp

T = TypeVar("T", bound=TensorBase)
_NAMED: ContextVar[frozenset[str]] = ContextVar("routines of any number of examples", default=frozenset())


@contextmanager
def written_out(names: frozenset[str]) -> Iterator[None]:
    """Within the block the routines `names` take a symbolic number of examples: their nodes are written, not run."""
    token = _NAMED.set(names)
    try:
        yield
    finally:
        _NAMED.reset(token)


def has_routine(tensor: TensorBase, name: str, axes: int = 1, dtype: DType | None = None) -> bool:
    """Whether the device of a tensor has the routine `name` for it, or for the same cast to `dtype`.

    An example is the last `axes` axes; the routine may be limited in its elements. False without ROUTINES, for sharded
    tensors, no elements, and symbolic sizes but where `written_out` has the name. Opens the device. One that does not
    open has none: what computes the values raises the reason.
    """
    device, shape = tensor.device, tensor.shape
    if not ROUTINES.value or not device or isinstance(device, tuple):
        return False
    if not is_concrete(shape):
        if name not in _NAMED.get() or not is_concrete(shape[len(shape) - axes :]):
            return False
    elif 0 in shape:
        return False
    try:
        target = Device[device].target
    except DeviceError:
        return False
    return target.has_routine(name, dtype or tensor.dtype, prod(shape[len(shape) - axes :]))


def results(name: str, operands: Sequence[T], options: tuple[int, ...], wanted: Sequence[int]) -> list[T]:
    """Return the `wanted` results, by number and in that order, of the routine `name` on operands.

    Operands have examples along axis 0; their shapes, those of the results and the static `options` are what
    uop/routines.py says. Results that are no floats have no gradient.
    """
    sources = tuple([_in_memory(tensor.uop) for tensor in operands])
    kinds = results_of(name, [(source.dtype, source.shape) for source in sources], options)
    found: list[T] = []
    for number in wanted:
        node = UOp(Ops.ROUTINE, kinds[number][0], sources, RoutineArg(name, number, options))
        new = operands[0]._wrap(node, *operands[1:])
        if kinds[number][0].kind != "float":
            new._set_flag(False)
        found.append(new)
    return found


def of_matrices(
    name: str, operands: Sequence[Any], options: tuple[int, ...] = (), wanted: Sequence[int] = (0,)
) -> list[Any]:
    """Return the `wanted` results of the routine `name` on matrices (..., m, n).

    All operands have the same first axes, which are one axis for the routine. `options` as in `results`.
    """
    batch = operands[0].shape[:-2]
    count = prod(batch)
    flat = [reshaped(tensor, (count, *tensor.shape[-2:])) for tensor in operands]
    return [reshaped(found, (*batch, *found.shape[1:])) for found in results(name, flat, options, wanted)]


def with_kernels(name: str, value: T, sources: Sequence[T], kernels: Callable[..., T]) -> T:
    """Return `value`, which a routine computes of `sources`, with the derivative of what `kernels` make of the same.

    `kernels(*sources)` gives the same value as a graph of kernels; it is called only when a gradient is built. `name`
    is for errors and printed graphs.
    """

    def derive(node: UOp, start: T, wanted: list[bool]) -> list[T | None]:
        given = apart([start._wrap(source) for source in node.src[1:]])
        with Context(ROUTINES=0, AUTOCAST=""):
            found = gradient(kernels(*given).uop, [x.uop for x in given], start.uop)
        return [None if part is None else start._wrap(part) for part in found]

    return with_derivative(name, value, sources, derive)


def apart(tensors: Sequence[T]) -> list[T]:
    """Return tensors of the same values that are different nodes, so that the gradient of each is its own.

    A tensor that is two operands is one node, whose gradient is the sum of both.
    """
    return [
        with_derivative(f"operand {number}", tensor, [tensor], lambda node, start, wanted: [start])
        for number, tensor in enumerate(tensors)
    ]


def _in_memory(node: UOp) -> UOp:
    """Return a node whose values a schedule stores: the node itself but for constants."""
    base = memory_base(node)
    return UOp(Ops.CONTIGUOUS, node.dtype, (node,)) if base.op in LEAVES - {Ops.BUFFER} else node
