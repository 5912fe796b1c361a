"""Random programs of a function under TinyJit, with new arguments, with state that it writes, and a bound Variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actions import COMPUTE, ELEMENTWISE, rows, view
from bounded import Uncertain
from draft import ALIKE, SHAPES, Action, Actions, Draft
from program import Function, Program
from writes import (
    assign,
    coupled,
    delete,
    finish,
    inplace,
    read,
    realize,
    row_view,
    row_write,
    setitem,
    through_views,
)


def jit(d: Draft) -> Program:
    """A function under TinyJit, called with new arguments and with state that it writes."""
    shape = d.rng.choice([s for s in SHAPES if s])
    own = [d.leaf("float32", shape) for _ in range(d.rng.randint(1, 3))]
    d.fixed.update(own)
    d.state.extend(own)
    d.any_leaf()
    d.number_of = d.rng.choice(("", "", "rows", "row_write", "row_view"))
    make_function(
        d,
        own,
        [
            (30 if d.number_of else 0, numbered),
            *ELEMENTWISE,
            *COMPUTE,
            (6, assign),
            (4, setitem),
            (5, inplace),
            (4, through_views),
            (6, coupled),
            (2, realize),
        ],
    )
    between = [(4, read), (2, realize), (1, delete), *ELEMENTWISE, (2, inplace), (2, assign), (1, setitem),
               (2, through_views)]  # fmt: skip
    call_often(d, between)
    return finish(d)


def numbered(d: Draft) -> None:
    """In a function: a slice whose length or place is the Variable that it is given, of `most` values."""
    {"rows": rows, "row_write": row_write, "row_view": row_view}[d.number_of](d)


def make_function(d: Draft, own: Sequence[str], actions: Actions,
                  last: Action | None = None) -> None:  # fmt: skip
    """A function over new parameters and over own, tensors that it may write."""
    rng = d.rng
    samples = [
        d.leaf(d.real, d.shape(rng.choice(own)) if own else rng.choice(SHAPES)) for _ in range(rng.randint(1, 2))
    ]
    outside = dict(d.machine.values)
    params = [d.name() for _ in samples]
    d.machine.values = {n: v for n, v in outside.items() if n in own or isinstance(v, tuple)}
    d.machine.values.update({p: outside[s] for p, s in zip(params, samples, strict=True)})
    d.fixed.update((*params, *samples))
    d.body = []
    d.some(actions, rng.randint(3, 7))
    if last is not None:
        last(d)
    elif rng.random() < 0.5:  # a result and its view
        d.some([(1, view), (1, through_views)], 1)
    body, d.body = d.body, None
    inside = [n for n, v in d.machine.values.items() if n not in own and not isinstance(v, tuple)]
    results = sorted(rng.sample(inside, min(len(inside), rng.randint(1, 3))))
    if results and rng.random() < 0.5:  # with what shares memory with one of them
        first = d.machine.values[rng.choice(results)]
        results = sorted({*results, *(n for n in inside if d.machine.values[n].shares(first))})[:4]
    d.functions.append(Function(tuple(params), tuple(body), tuple(results), "n" if d.most else ""))
    d.samples = samples
    d.again()


def call_often(d: Draft, between: Actions) -> None:
    """Call the function with new arguments, four times or more, with other things in between."""
    function = d.functions[-1]
    for _ in range(d.rng.randint(4, 6)):
        arguments = [_argument(d, sample) for sample in d.samples]
        try:
            call: dict[str, Any] = {"function": len(d.functions) - 1}
            if function.number:
                low = 1 if d.number_of == "rows" else 0
                call |= {"number": d.rng.randint(low, d.most - 1 + low), "most": d.most - 1 + low, "low": low}
            out = d.add("call", arguments, call, len(function.results))
            if d.kind == "training":
                d.silent.update(out)
            elif out and d.rng.random() < 0.3:
                d.add("inplace_number", [d.rng.choice(out)], ["add", 2], 0)
        except (Uncertain, *ALIKE):
            d.again()
        d.some(between, d.rng.randint(0, 2))


def _argument(d: Draft, sample: str) -> str:
    """What a call is given: a new tensor, the one of before, or any other of its kind, realised or not."""
    chance = d.rng.random()
    if chance < 0.6:
        return d.leaf(d.real, d.shape(sample))
    found = [sample]
    if chance > 0.8 and d.kind != "training":
        kind = (d.dtype(sample), d.shape(sample), d.spread_of(sample))
        views = d.machine.values  # where two captured calls were given what the function also reaches by itself, a
        # replay cannot tell which of them it used: memory of its state is not given to it
        found = [n for n in d.tensors() if (d.dtype(n), d.shape(n), d.spread_of(n)) == kind
                 and not any(views[n].shares(views[own]) for own in d.state)]  # fmt: skip
    return d.rng.choice(found or [sample])
