"""A method gives a value of its own: a write to a result changes neither what it was computed from nor other results.

Each call of degenerate_calls.py, and others whose arguments leave nothing to do, is made on tensors of several kinds
and shapes; then what has memory in common with what was given is written to, by assign and by index, and everything
given is read. The views of a closed table share their base's memory by design and are left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from degenerate_calls import calls
from tinygraft import Tensor, dtypes
from tinygraft.errors import TinygraftError
from tinygraft.uop.ops import Ops

VIEWS = """
reshape view view_as reshape_as flatten unflatten ravel permute transpose t T mT H mH adjoint swapaxes swapdims movedim
moveaxis narrow select shrink shrink_to flip fliplr flipud rot90 squeeze unsqueeze split split_with_sizes tensor_split
chunk hsplit vsplit dsplit unbind diagonal detach expand expand_as broadcast_to broadcast_tensors unfold bitcast real
imag view_as_real view_as_complex as_strided to
"""
IN_PLACE = ["realize"]  # returns self, and says so
NO_TENSORS = ["numpy", "tolist", "item", "hash", "data", "uop"]
NOTHING_TO_DO = """
+t; t.positive(); t.abs(); abs(t); t.floor(); t.ceil(); t.trunc(); t.round(); round(t); t.roll(0); t.roll(0, 0)
t.roll((), ()); t.pow(1); t ** 1; t ** 1.0; t.usum(); t.uprod(); t.maximum(-10 ** 30); t.minimum(10 ** 30)
t.clamp(-10 ** 30); t.sequential([]); t.cast(t.dtype); t.clone(); t.contiguous(); t.contiguous_backward(); t.repeat(1)
t.tile(1); t.pad([None] * t.ndim); t.pad(((0, 0),) * t.ndim); t.repeat_interleave(1); t.cat(); t.stack(); t.hstack()
t.vstack(); t.dstack(); t.column_stack(); t.block_diag(); t.cartesian_prod(); t.meshgrid(); t.atleast_1d()
t.atleast_2d(); t.atleast_3d(); t.dropout(0.5, False); t.dropout(); t.dropout(0.0, True); t.alpha_dropout(0.0, True)
t.feature_alpha_dropout(0.5); t.dropout1d(); t.matrix_power(1); t.chain_matmul([t]); t.multi_dot([t])
t.einsum('...->...', t); t.masked_fill(b & ~b, 0); t.nan_to_num()
t.conj(); t.conj_physical(); t.resolve_conj(); t.resolve_neg(); t.sum(()); t.sum_to_size(t.shape); t.max(()); t.mean(())
t.sort(0)[0]; t.msort(); t.cumsum(0); t.cummax(0); t.cummin(0); t.cumprod(0); t.tril(99); t.triu(-99); t.fftshift(())
t.ifftshift(()); t.interpolate(t.shape[2:]); t.gather(0, t.argsort(0)); t.index_put((), t); t.index_add(0, i[:0], t[:0])
t.scatter(0, k[:0], o[:0]); t.masked_scatter(b & ~b, o); t.diff(0); t.logical_or(False); t | 0; t ^ 0; t << 0; t >> 0
t & t; t * 1; t / 1; t // 1; t - 0; t.lerp(o, 0.0); t.copysign(t); t.ufix(t); t.const_like(1)
t.zeros_like(); t.full_like(2)
t.to(None).clone(); t.pad_to(t.shape); t.renorm(2, 0, 1e9); t.int(); t.long(); t.float(); t.bool(); t.byte(); t.half()
t.triangular_solve(o); t.solve_triangular(o, upper=True); t.bool().any(()); t.bool().all(()); t.amax(()); t.prod(())
t.unique(); t.unique_consecutive(); t.take_along_dim(k, 0); t.index_select(0, i); t.nonzero(); t.argwhere()
Tensor(t); Tensor.cat(t); Tensor.stack(t); Tensor.einsum('...->...', t)
"""
KINDS = {
    "float32": dtypes.float32, "int32": dtypes.int32, "uint8": dtypes.uint8, "bool": dtypes.bool,
    "complex64": dtypes.complex64,
}  # fmt: skip
SHAPES = [(), (1,), (1, 1), (2, 2)]


def texts() -> list[str]:
    """All calls but those of views and of what gives no tensors."""
    more = [text.strip() for part in NOTHING_TO_DO.replace("\n", ";").split(";") if (text := part)]
    left_out = set(VIEWS.split()) | set(IN_PLACE) | set(NO_TENSORS)
    found = []
    for text in [*calls(), *more]:
        last = re.findall(r"\.(\w+)(?:\([^()]*\)|\(.*\))?(?:\[\d\])?$", text)
        indexed = re.fullmatch(r"t\[[^]]*\]", text)
        if text and not indexed and not (last and last[0] in left_out) and not text.startswith("t.broadcast_tensors"):
            found.append(text)
    return list(dict.fromkeys(found))


def given(shape: tuple[int, ...], dtype: Any) -> dict[str, Any]:
    """What the names in the calls are, each in memory."""
    n = math.prod(shape)
    line = np.arange(n).reshape(shape)
    along = sum(np.indices(shape)) % max(min(shape, default=1), 1) if shape else np.array(0)
    made = {
        "t": Tensor((line % 2 if dtype is dtypes.bool else line + 1).astype(np.float32)).cast(dtype),
        "o": Tensor((line % 2 if dtype is dtypes.bool else line + 3).astype(np.float32)).cast(dtype),
        "k": Tensor(np.asarray(along, np.int32).reshape(shape)), "p": Tensor(line.astype(np.int32)),
        "b": Tensor(line % 2 == 0), "i": Tensor(np.zeros(1, np.int32)),
    }  # fmt: skip
    return {name: tensor.contiguous().realize() for name, tensor in made.items()}


def tensors_of(value: Any) -> Iterator[Tensor]:
    """The tensors of a nested result."""
    for part in value if isinstance(value, (tuple, list)) else [value]:
        if isinstance(part, (tuple, list)):
            yield from tensors_of(part)
        elif isinstance(part, Tensor):
            yield part


def results(text: str, names: dict[str, Any]) -> list[Tensor]:
    """What a call gives; nothing where it refuses these inputs."""
    try:
        return list(tensors_of(eval(text, {"Ops": Ops, "Tensor": Tensor}, dict(names))))
    except (TinygraftError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError):
        return []


ALL = texts()


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_is_a_value(kind: str) -> None:
    """It is another tensor than those given and than the call's other results, and a write to it changes none of them.

    Few methods leave their node as it is: only those have memory of what was given, and only those are written to.
    """
    wrong = []
    for shape in SHAPES if kind != "complex64" else SHAPES[::3]:
        names = given(shape, KINDS[kind])
        before = {name: tensor.tolist() for name, tensor in names.items()}
        memory = {half.uop.base for tensor in names.values() for half in tensor._parts()}
        for text in ALL:
            found = results(text, names)
            for number, result in enumerate(found):
                if any(result is other for other in (*names.values(), *found[:number])):
                    wrong.append(f"{text} of shape {shape} gives a tensor that there was")
                elif memory.intersection(half.uop.base for half in result._parts()) and 0 not in result.shape:
                    write(result)
                    changed = [name for name, tensor in names.items() if tensor.tolist() != before[name]]
                    if changed:
                        wrong.append(f"{text} of shape {shape}: a write to its result changes {changed}")
                        names = given(shape, KINDS[kind])
                        memory = {half.uop.base for tensor in names.values() for half in tensor._parts()}
    assert not wrong, "\n".join(wrong)


def write(t: Tensor) -> None:
    """Other values for all of t, and then for a part."""
    t.assign(t._const(1, t.dtype)).realize()
    if t.ndim:
        t[0] = 0
        t.realize()


def test_there_are_calls() -> None:
    """The lists are read as they were meant."""
    assert len(ALL) > 600 and "t.floor()" in ALL and "+t" in ALL and "t.roll(0)" in ALL
    assert "t.reshape(-1)" not in ALL and "t[None]" not in ALL and "t.detach()" not in ALL


def test_layers_that_do_nothing() -> None:
    """Dropout outside training gives a value, through a leaf with a gradient too."""
    x = Tensor([1.0, 2.0], requires_grad=True).realize()
    y = x.dropout(0.5)
    (y * y).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 4.0]
    y.assign(Tensor([9.0, 9.0])).realize()
    assert x.tolist() == [1.0, 2.0]
