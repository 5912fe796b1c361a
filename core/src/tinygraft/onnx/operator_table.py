"""The operators of ONNX by domain, name and version, as functions of tensors.

`@operator("Gemm", since=7)` enters a function. Its positional parameters are the inputs, None where an optional one is
absent; attributes come by keyword, with the defaults of the function. `steers` names inputs that only steer (shapes,
axes, counts): these are numbers on the host, or nested lists of them. A function that has a keyword `node` is given the
`NodeCall`: how many outputs are wanted, the element types of its inputs, and how its subgraphs are run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Protocol, TypeVar

from tinygraft.errors import UnsupportedError
from tinygraft.tensor.tensor import Tensor

OnnxValue = Any  # a Tensor, a list of values (a sequence of ONNX), or None (an optional without a value)
OperatorFunction = Callable[..., Any]
F = TypeVar("F", bound=OperatorFunction)
MOST_UNROLLED = 1 << 20  # assumed: a graph of more steps, or a list of more numbers, would not be finished
ML, TRAINING, PREVIEW = "ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.preview"
MICROSOFT = "com.microsoft"  # what ONNX Runtime writes
_THEMES = (
    "math", "logic", "casting", "activation", "shape", "indexing", "scatter", "reduce", "products", "conv", "pool",
    "norm", "attention", "linear_attention", "recurrent", "control", "sequence", "quantise", "resize", "vision",
    "boxes", "signal", "windows", "loss", "random", "training", "features", "trees",
    "microsoft", "fused", "fused_attention", "grouped_attention",
)  # fmt: skip


class NodeCall(Protocol):
    """What an operator is told of its node."""

    @property
    def count(self) -> int:
        """How many outputs the node has; the last of them has a name."""

    @property
    def types(self) -> Sequence[int]:
        """The element type of each input, 0 where the graph does not say."""

    def wants(self, output: int) -> bool:
        """Whether the output of that number has a name."""

    def value(self, name: str) -> OnnxValue:
        """The value of a name that the graph has computed."""

    def run(self, graph: Any, arguments: Sequence[OnnxValue]) -> list[OnnxValue]:
        """Run a subgraph, which sees the names around the node."""


@dataclass(frozen=True)
class Operator:
    """One operator since a version of its domain."""

    name: str
    since: int
    function: OperatorFunction
    steers: frozenset[str]
    inputs: tuple[str, ...]  # the names of positional parameters
    needed: tuple[str, ...]  # those of them that have no default: the first ones
    optional: frozenset[str]  # those that a node may leave out between others: None is among their types
    variadic: bool
    attributes: frozenset[str]  # the names of all parameters that a keyword may give
    required: frozenset[str]  # those without a default that come by keyword alone
    wants_node: bool

    def steered(self, position: int) -> bool:
        """Whether the input at a position is numbers on the host."""
        return position < len(self.inputs) and self.inputs[position] in self.steers


OPERATORS: dict[tuple[str, str], list[Operator]] = {}


def operator(*names: str, since: int = 1, domain: str = "", steers: str = "") -> Callable[[F], F]:
    """Enter a function for the operators of those names, as they are since a version of the domain.

    `steers` has the names of inputs, with spaces between, that are given as numbers on the host.
    """

    def enter(function: F) -> F:
        for name in names:
            found = OPERATORS.setdefault((domain, name), [])
            found.append(_operator(name, since, function, frozenset(steers.split())))
            found.sort(key=lambda entry: -entry.since)
        return function

    return enter


def _operator(name: str, since: int, function: OperatorFunction, steers: frozenset[str]) -> Operator:
    """Return the Operator of a function: its inputs and attributes are the positional and keyword parameters."""
    parameters = inspect.signature(function).parameters.values()
    positional = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "node"]
    return Operator(
        name, since, function, steers, positional,
        tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty),
        frozenset(p.name for p in parameters if p.default is None or "None" in str(p.annotation)),
        any(p.kind is p.VAR_POSITIONAL for p in parameters),
        frozenset(positional) | {p.name for p in keywords},
        frozenset(p.name for p in keywords if p.default is p.empty),
        any(p.name == "node" for p in parameters),
    )  # fmt: skip


def find_operator(domain: str, name: str, version: int) -> Operator | None:
    """Return the operator of that name as a version of its domain has it; None where there is none.

    The domain "ai.onnx" is "".
    """
    _import_themes()
    found = OPERATORS.get(("" if domain == "ai.onnx" else domain, name), ())
    return next((entry for entry in found if entry.since <= version), None)


@cache
def _import_themes() -> None:
    """Import the modules whose functions are the operators: once, whichever of them were imported before."""
    for theme in _THEMES:
        import_module(f"tinygraft.onnx.op_{theme}")


def text(value: bytes | str) -> str:
    """An attribute that is text."""
    return value.decode() if isinstance(value, bytes) else value


def axes_of(axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the front."""
    return [axis + rank if axis < 0 else axis for axis in axes]


def scalar_like(value: float, like: Tensor) -> Tensor:
    """A tensor without axes, of the dtype and on the device of another."""
    return Tensor(value, dtype=like.dtype, device=like.device)


def unrolled(count: Any, what: str) -> int:
    """How often something is made on the host. Raises UnsupportedError for more than is sensible."""
    if int(count) > MOST_UNROLLED:
        raise UnsupportedError(
            f"{what} would be made {int(count)} times one after another; at most {MOST_UNROLLED} are"
        )
    return int(count)


def number(value: Any, default: Any = None) -> Any:
    """Return a number on the host, which may have axes of size 1; `default` where it is absent or empty."""
    while isinstance(value, list):
        value = value[0] if value else None
    return default if value is None else value


def listed(value: list[int] | int) -> list[int]:
    """Numbers on the host as a list, also where the model has one without an axis."""
    return value if isinstance(value, list) else [value]
