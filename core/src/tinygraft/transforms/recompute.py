"""checkpoint: what a function computes on the way is not kept for its gradient but computed again.

The value is that of the function, over a FUNCTION node whose derivative is that of the function's graph once more, over
nodes of its own that come AFTER the gradient of the value. What is computed for the gradient is then not what was
computed for the value, and nothing of that has to stay in memory in between. It costs one more run of the function. The
idea is that of Chen et al., "Training deep nets with sublinear memory cost", 2016.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tinygraft.autograd.walk import gradient
from tinygraft.engine.assigns import assigned_to
from tinygraft.tensor.nested import mapped
from tinygraft.tensor.primitives.custom import with_derivative
from tinygraft.tensor.tensor import Tensor
from tinygraft.transforms.call import TransformCall, stand_in
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, rebuild, toposort


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the same value and gradient whose gradient computes again what it needs of the way there.

    Gradients flow to the tensors among the arguments and to all others that function reads, such as weights. Random
    numbers that function draws are the same both times. What function writes, such as a cache, is written once, when it
    is called.

    >>> from tinygraft import Tensor, checkpoint
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> y = checkpoint(lambda x: (x.exp() * x).sum())(x)
    >>> [round(g, 3) for g in y.gradient(x)[0].tolist()]
    [5.437, 22.167]
    """

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        """Call the function, give its results a gradient that computes them again, and apply once what it assigns."""
        call = TransformCall("checkpoint", function, args, kwargs, None)
        result = mapped(call.result, Tensor, lambda result: _forgetful(call, result))
        written = [place for place, node in enumerate(call.inside) if call.tensors[place].uop is not node]
        for place, value in zip(written, call.known([call.tensors[place].uop for place in written]), strict=True):
            call.given[place].assign(call.given[place]._wrap(value))
        return result

    return wrapped


def _forgetful(call: TransformCall, result: Tensor) -> Tensor:
    """A result of a call as a value whose gradient is that of its graph made once more."""
    value = call.tensor(result.uop)
    if value.dtype.kind != "float":
        return value
    read = _read(result.uop, call.inside)
    inputs = [*call.given, *(value._wrap(node) for node in read)]
    unknown = [UOp.placeholder(node.shape, node.dtype, node.device, call.what) for node in (*call.inside, *read)]
    graph = rebuild([result.uop], dict(zip((*call.inside, *read), unknown, strict=True)))[result.uop]
    written = {assigned_to(node) for node in toposort(graph) if node.op is Ops.ASSIGN}

    def derive(node: UOp, start: Tensor, wanted: list[bool]) -> Sequence[Tensor | None]:
        """Return the gradients of the graph built once more, over inputs that come AFTER the gradient `start`.

        So its values on the way are other nodes than those of the first time, and none of these is kept for them.
        """
        known = [UOp(Ops.AFTER, source.dtype, (stand_in(source), start.uop)) for source in node.src[1:]]
        known = [
            UOp(Ops.CONTIGUOUS, again.dtype, (again,)) if one in written else again
            for one, again in zip(unknown, known, strict=True)
        ]  # what function writes is in memory already: the second time it goes to a copy
        found = gradient(graph, unknown, start.uop)
        asked = [part for part, want in zip(found, wanted, strict=True) if part is not None and want]
        again = rebuild(asked, dict(zip(unknown, known, strict=True)))
        return [
            None if part is None or not want else start._wrap(again[part])
            for part, want in zip(found, wanted, strict=True)
        ]

    return with_derivative(call.name, value, inputs, derive)


def _read(root: UOp, inside: Sequence[UOp]) -> list[UOp]:
    """The values from memory that a graph has from elsewhere: what is used beside what depends on the nodes inside.

    Of any dtype: a mask of dropout is made of bools, and drawn from numbers that move on; an index may be written over.
    """
    stand_ins = set(inside)
    depends, from_memory = set(stand_ins), set[UOp]()
    order = toposort(root)
    for node in order:
        if node.op is Ops.BUFFER or any(source in from_memory for source in node.src):
            from_memory.add(node)
        if any(source in depends for source in node.src):
            depends.add(node)
    users = [node for node in order if node in depends and node not in stand_ins]
    used = [source for node in users for source in node.src] if root in depends else [root]
    return [node for node in dict.fromkeys(used) if node not in depends and node in from_memory]
