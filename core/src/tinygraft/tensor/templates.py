"""Templates: an operator whose graph has many nodes is recorded once for each form of its operands, and then repeated.

    templated(method) -> method

A method that is made of others makes a tensor for each node of its graph, with checks, promotion and the rules of each
node: 5 to 10 us a node. But its graph follows from what the key has: shapes, dtypes, devices, bounds and flags of the
tensors, which of them are one node, the other arguments and the settings. So when a key comes for the second time the
method is run on stand-ins, PLACEHOLDERs of the same facts. The graph that it makes is a list of steps, and calls with
that key make the nodes of the steps over their own operands, and a tensor for each result. The method does not run.

What does more than build a graph is refused, and runs as it was written: a method that looks at values, writes, warns,
reads memory of its own, draws numbers, gives a view, or has a derivative of its own that refers to tensors of one call.
With SPEC=2, as in all tests, each repeated call also runs the method, whose nodes have to be the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from tinygraft import events
from tinygraft.config import AUTOCAST, CHECK_INDEX, DEFAULT_FLOAT, DEFAULT_INT, ROUTINES, TRAINING
from tinygraft.dtype import DType
from tinygraft.engine.exclusive import import_late
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.state import no_grad, recording
from tinygraft.uop import uop as nodes_of_graphs
from tinygraft.uop.held import PLAIN
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import NodeStep, UOp, make_again, steps_to, toposort

# given: methods that only build a graph, of more than two nodes
METHODS = frozenset({
    "prod", "min", "any", "all", "mean", "var", "var_mean", "std", "std_mean", "softmax", "log_softmax", "softmin",
    "logsumexp", "normalize", "layernorm", "batchnorm", "argmax", "argmin", "sum", "max", "matmul", "dot", "linear",
    "__matmul__", "where", "clamp", "clip", "floor", "ceil", "round", "isclose", "isnan", "isfinite", "__mod__",
    "mod", "__floordiv__", "pad", "repeat", "repeat_interleave", "outer", "cov", "diff", "renorm", "cdist", "norm",
    "vector_norm", "matrix_norm", "trace", "kron", "cross", "triu", "tril", "remainder", "atan2", "nan_to_num",
    "addcmul", "addcdiv", "lerp", "hypot", "xlogy", "logaddexp", "logit", "sinc", "frac", "heaviside", "relu6",
    "leaky_relu", "sigmoid", "logsigmoid", "softplus", "softsign", "swish", "silu", "quick_gelu", "gelu", "mish",
    "elu", "celu", "selu", "hardsigmoid", "hardswish", "hardtanh", "hardshrink", "softshrink", "tanhshrink", "glu",
    "prelu", "conv2d", "conv1d", "conv3d", "conv_transpose2d", "conv_transpose1d", "conv_transpose3d", "max_pool2d",
    "avg_pool2d", "max_pool1d", "avg_pool1d", "adaptive_avg_pool2d", "layer_norm", "rms_norm", "group_norm",
    "instance_norm", "batch_norm", "interpolate", "grid_sample", "affine_grid", "scaled_dot_product_attention",
    "pixel_shuffle", "pixel_unshuffle", "binary_crossentropy", "binary_crossentropy_logits",
    "sparse_categorical_crossentropy", "cross_entropy", "nll_loss", "l1_loss", "mse_loss", "smooth_l1_loss",
    "huber_loss", "kl_div", "cosine_similarity", "pairwise_distance", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "kthvalue", "median",
    "nanmedian", "mode", "amax", "amin", "aminmax", "count_nonzero", "histc", "sort",
    "argsort", "topk", "searchsorted", "bucketize", "isin", "one_hot", "gather", "scatter", "scatter_reduce",
    "scatter_add", "index_select", "index_add", "take_along_dim",
    "sign", "sinh", "cosh", "asinh", "acosh", "atanh", "erfinv", "digamma", "polygamma", "lgamma", "i0", "i0e", "i1",
    "i1e", "copysign", "floor_divide", "div", "frexp", "ldexp", "isinf", "masked_fill", "roll", "cat", "stack",
    "embedding", "index_copy", "index_fill", "tensordot", "einsum", "mm", "bmm", "mv", "addmm", "baddbmm", "addmv",
    "inv", "inverse", "det", "slogdet", "logdet", "cholesky", "cholesky_solve", "cholesky_inverse", "qr", "svd",
    "svdvals", "eigh", "eigvalsh", "solve", "solve_triangular", "lu_factor", "matrix_exp", "pinv", "matrix_rank",
    "bilinear", "local_response_norm", "corrcoef", "matrix_power", "square", "rsqrt",
})  # fmt: skip
MOST = 512  # templates, and keys that were seen once; assumed: programs that repeat expressions have fewer
MOST_LISTED = 16  # elements of a list that is no data: axes, sizes, a pair for each axis
_LONGEST = 4096  # nodes of a graph that is recorded
_REFUSED = frozenset({
    Ops.ASSIGN, Ops.BIND, Ops.BUFFER, Ops.COPY, Ops.MULTI, Ops.SHARD, Ops.VARIABLE
})  # fmt: skip
_CONSTANT = frozenset({Ops.CONST, Ops.DEVICE, Ops.IOTA, Ops.VARIABLE, Ops.BIND})
_NUMBERS = (int, bool, str, type(None), DType)


@dataclass(slots=True)
class Template:
    """The graph of a call: `constants` follow the operands in the list of nodes, and then the nodes of `steps`.

    `results` has for each result its place in that list and its flag, `kind` the type that holds them, None for one
    tensor; `names` are nodes that have a name in messages, `checks` functions that look at values of operands.
    """

    constants: list[UOp]
    steps: list[NodeStep]
    results: list[tuple[int, bool | None]]
    kind: Any
    names: list[tuple[int, str]]
    checks: list[tuple[Callable[..., Any], list[int], tuple[Any, ...]]]


_known: dict[tuple[Any, ...], Template | None] = {}  # None: refused
_seen: set[tuple[Any, ...]] = set()  # keys that came once, apart: those with a number that varies come once only
_home: type = object  # the class whose methods are templated


def serve(cls: type) -> None:
    """Say which class the methods are of: a subclass has no templates, as it may do more."""
    global _home
    _home = cls


def clear() -> None:
    """Drop all templates."""
    _known.clear()
    _seen.clear()


def templated(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return `method`, repeated by templates where it only builds a graph; its first argument is the tensor."""

    @wraps(method)
    def repeat(*args: Any, **kwargs: Any) -> Any:
        operands: list[UOp] = []
        tensors: list[Any] = []
        key: list[Any] = [method]
        if (
            events.origins is not None or not _describe(args, key, operands, tensors)
            or (kwargs and not _describe_keywords(kwargs, key, operands, tensors)) or not operands
        ):  # fmt: skip
            return method(*args, **kwargs)
        key += (
            AUTOCAST.value, TRAINING.value, ROUTINES.value, CHECK_INDEX.value, DEFAULT_FLOAT.value, DEFAULT_INT.value,
            bool(no_grad.here.blocks) and no_grad.is_quiet(),
        )  # fmt: skip
        template = _known.get(found := tuple(key))
        if template is None and (template := _made(found, method, args, kwargs)) is None:
            return method(*args, **kwargs)
        for check, places, rest in template.checks:
            check(*[tensors[place] for place in places], *rest)
        if template.checks and any(tensor._node is not node for tensor, node in zip(tensors, operands, strict=True)):
            return method(*args, **kwargs)  # a check has realised one
        result = _repeated(template, operands)
        if nodes_of_graphs.check_node is not None:
            _compare(result, method(*args, **kwargs), method.__name__)
        return result

    return repeat


def _made(
    key: tuple[Any, ...], method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Template | None:  # fmt: skip
    """Return the template of a call of a key that has none, where the key came before; None for the first call."""
    if key in _known:  # refused
        return None
    if key not in _seen:
        if len(_seen) >= MOST:
            _seen.clear()
        _seen.add(key)
        return None
    if len(_known) >= MOST:
        _known.clear()
    _seen.discard(key)
    template = _known[key] = _recorded(method, args, kwargs)
    return template


def _describe(
    values: Iterable[Any], key: list[Any], operands: list[UOp], tensors: list[Any], depth: int = 0
) -> bool:  # fmt: skip
    """Add the form of arguments to `key`, and the nodes of tensors to `operands`, each once and with its tensor.

    Return False for what has no template: other objects, a subclass of Tensor, constants, several devices, and lists
    that are data. `depth` is how many lists the values are in.
    """
    for value in values:
        kind = value.__class__
        if kind is _home:
            node = value._node
            if node in operands:
                key.append(operands.index(node))
            else:
                base = node
                while base.op in PLAIN:
                    base = base.src[0]
                if base.op in _CONSTANT or node.device.__class__ is not str:
                    return False
                operands.append(node)
                tensors.append(value)
            key += (
                kind, node.shape, node.dtype, node.device, node.lo, node.hi, value._requires_grad, node.op is Ops.DETACH
            )  # fmt: skip
        elif kind in _NUMBERS:
            key += (kind, value)
        elif value is _home:  # of a class method
            key.append(value)
        elif kind is float:
            key.append(repr(value))  # 0.0 and -0.0 differ, and NaN is one
        elif (kind is tuple or kind is list) and depth < 2 and len(value) <= MOST_LISTED:
            key += (kind, len(value))
            if not _describe(value, key, operands, tensors, depth + 1):
                return False
        else:
            return False
    return True


def _describe_keywords(values: dict[str, Any], key: list[Any], operands: list[UOp], tensors: list[Any]) -> bool:
    """Do what `_describe` does for arguments by keyword."""
    key += values
    return _describe(values.values(), key, operands, tensors)


def _repeated(template: Template, operands: list[UOp]) -> Any:
    """Return what a call of a template returns for `operands`, which this makes a part of the list of all nodes."""
    nodes = operands
    nodes += template.constants
    make_again(template.steps, nodes)
    for place, name in template.names:
        import_late("tinygraft.tensor.state.gradient_cuts").name_cut(nodes[place], name)
    new = object.__new__
    found = []
    for place, flag in template.results:
        result: Any = new(_home)
        result._set(nodes[place], flag)
        found.append(result)
    return found[0] if template.kind is None else template.kind(found)


def _recorded(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Template | None:
    """Run a method on stand-ins of its tensors. Returns the template of its graph; None where it has none."""
    shown: dict[UOp, UOp] = {}
    call, before = recording.Recording(), recording.here.open
    recording.here.open = (*before, call)
    given = [_shown(value, shown, method.__name__) for value in args]
    named = {name: _shown(value, shown, method.__name__) for name, value in kwargs.items()}
    try:
        result = method(*given, **named)
    except Exception:
        return None  # the call itself raises it, on the user's tensors
    finally:
        recording.here.open = before
    if not call.is_pure or not all(is_concrete(node.shape) for node in shown):
        return None
    kind = None if type(result) is _home else getattr(type(result), "_make", type(result))
    results = [result] if kind is None else list(result) if isinstance(result, (tuple, list)) else []
    if not results or any(type(found) is not _home or not _is_new(found, shown) for found in results):
        return None
    return _template([found.uop for found in results], [found.requires_grad for found in results], kind, shown, call)


def _shown(value: Any, shown: dict[UOp, UOp], name: str) -> Any:
    """Return an argument of the method `name` with stand-ins for tensors; `shown` has those of nodes, and gets more.

    No function in `_recorded`: one that calls itself is a cycle, which keeps the memory of operands until the next
    collection of garbage.
    """
    if type(value) in (tuple, list):
        return type(value)([_shown(part, shown, name) for part in value])
    if type(value) is not _home or not isinstance(value, TensorBase):
        return value
    node = value.uop
    if node not in shown:
        shown[node] = _stand_in(node, name)
    new: Any = object.__new__(_home)
    new._set(shown[node], value.requires_grad)
    return new


def _stand_in(node: UOp, name: str) -> UOp:
    """Return a node with the facts of an operand of `name`. A DETACH stays one: in a no_grad block it gets no other."""
    shown = UOp.stand_in(node, f"an operand of {name}")
    return UOp(Ops.DETACH, node.dtype, (shown,)) if node.op is Ops.DETACH else shown


def _is_new(tensor: Any, shown: dict[UOp, UOp]) -> bool:
    """Return whether a result has a node of its own, and is no view and no other reading of an operand."""
    lends = None if tensor._lender is None else tensor._lender()  # a tensor within the method is gone by now
    return tensor._storage is None and lends is None and tensor.uop not in shown.values()


def _template(
    roots: list[UOp], flags: list[bool | None], kind: Any, shown: dict[UOp, UOp], call: recording.Recording
) -> Template | None:  # fmt: skip
    """Return the template of the graph of `roots` over the stand-ins `shown`; None for a graph that has none."""
    places = {node: place for place, node in enumerate(shown.values())}
    order = toposort(*roots, enter=lambda node: node not in places)
    if len(order) > _LONGEST:
        return None
    made: list[UOp] = []
    above = set(places)
    for node in order:
        if node in places:
            continue
        if node.op in _REFUSED or node.op is Ops.PLACEHOLDER or node.tag is not None or isinstance(node.device, tuple):
            return None
        if node.op is Ops.FUNCTION and not node.arg.is_shared:
            return None
        if not above.isdisjoint(node.src):
            above.add(node)
            made.append(node)
    constants, steps = steps_to(made, places)
    if not all(root in above for root in roots):
        return None
    if any(places.get(node, len(shown)) >= len(shown) for _, tensors, _ in call.checks for node in tensors):
        return None
    checks = [(check, [places[node] for node in tensors], rest) for check, tensors, rest in call.checks]
    names = [(places[node], name) for node, name in call.names if node in places]
    return Template(
        constants, steps, [(places[r], flag) for r, flag in zip(roots, flags, strict=True)], kind, names, checks
    )


def _compare(repeated: Any, written: Any, name: str) -> None:
    """Raise AssertionError where a repeated call is another one than the method itself gives: a check of tests."""
    ours, theirs = ([found] if isinstance(found, TensorBase) else list(found) for found in (repeated, written))
    assert len(ours) == len(theirs), f"{name} has {len(theirs)} results, its template {len(ours)}"
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.uop is other.uop, f"the graph of {name} is another one:\n{mine.uop}\n{other.uop}"
        assert mine.requires_grad is other.requires_grad, f"{name} has the flag {other.requires_grad}"
