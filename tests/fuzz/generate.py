"""Random programs: each step is tried on the reference first, and kept when what it gives is certain.

`generate(seed, kind)` makes the same program for the same seed, always. Shapes and constants come from small pools, so
that kernels repeat and caches help. Kinds: "values" (everything that computes), "state" (writes, several of them
realised together), "views" (views of views, written in turn with their bases), "jit" (TinyJit with changing arguments
and state), "training" (gradients and optimizers, with PyTorch as the reference), "shards" (several devices), "numbers"
(the same steps again and again, with other Python numbers).
"""

from __future__ import annotations

import random

from actions import COMPUTE, ELEMENTWISE, along, binary, view
from draft import SHAPES, Draft
from generate_jit import jit
from generate_numbers import numbers
from program import Program
from writes import LOOK, WRITE, assign, delete, finish, inplace, refused, setitem, through_views

KINDS = ("values", "state", "views", "jit", "training", "shards", "numbers")
WEIGHTS = (4, 3, 3, 3, 4, 2, 4)


def values(d: Draft) -> Program:
    """Everything that computes, with a few writes."""
    for _ in range(d.rng.randint(2, 3)):
        d.any_leaf()
    mixed = [*COMPUTE, *[(w, f) for w, f in LOOK], (1, assign), (1, setitem), (1, inplace), (1, through_views)]
    d.some(mixed, d.rng.randint(6, 12))
    return finish(d)


def state(d: Draft) -> Program:
    """Writes, several of them pending and realised together."""
    shape = d.rng.choice([s for s in SHAPES if s])
    for _ in range(3):
        d.leaf("float32", shape)
    d.any_leaf()
    d.some([*ELEMENTWISE, *[(3 * w, f) for w, f in WRITE], *LOOK], d.rng.randint(6, 12))
    return finish(d)


def views(d: Draft) -> Program:
    """Views of few tensors, and writes through them, read and realised and forgotten between."""
    shape = d.rng.choice([s for s in SHAPES if len(s) > 1])
    for _ in range(2):
        d.leaf("float32", shape)
    if d.rng.random() < 0.5:
        d.some(ELEMENTWISE, 1)
    mixed = [(6, view), (5, through_views), (1, refused), *[(w, f) for w, f in WRITE], *LOOK, (2, binary), (2, delete)]
    d.some(mixed, d.rng.randint(8, 14))
    return finish(d)


def shards(d: Draft) -> Program:
    """Tensors on one device and on several, cut or replicated."""
    shape = d.rng.choice([s for s in SHAPES if s])
    for _ in range(3):
        d.leaf("float32", shape)

    def relay(d: Draft) -> None:
        a = d.pick("float", ndim=1)
        axis = d.rng.choice([None, *range(len(d.shape(a)))])
        if d.spread_of(a):
            d.add("unshard", [a])
        else:
            d.add("shard", [a], axis)

    d.some([*ELEMENTWISE, (3, along), (5, relay), *WRITE, (3, through_views), *LOOK], d.rng.randint(6, 10))
    return finish(d)


def generate(seed: int, kind: str = "", leave_out: frozenset[str] = frozenset()) -> Program:
    """The program of a seed; its kind is drawn too where none is given."""
    rng = random.Random(seed)
    kind = kind or rng.choices(KINDS, WEIGHTS)[0]
    while True:
        d = Draft(rng, kind, leave_out)
        if kind == "training":
            from generate_training import training

            made = training(d)
        else:
            makers = {
                "values": values,
                "state": state,
                "views": views,
                "jit": jit,
                "shards": shards,
                "numbers": numbers,
            }
            made = makers[kind](d)
        if made is not None:
            return made
