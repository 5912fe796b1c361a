"""Tensors on several devices: every chain of operations has the values and gradients that it has on one device."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sharded
from tinygraft import Context, Tensor

DEVICES = (("PYTHON", "PYTHON:1"), ("PYTHON", "PYTHON"), ("PYTHON:1", "PYTHON", "PYTHON:2"))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), number=st.integers(0, 2), length=st.integers(1, 7))
def test_a_chain_is_what_it_is_on_one_device(seed: int, number: int, length: int) -> None:
    """Random shapes, layouts and operations, some of them realised on the way; forward and backward."""
    sharded.check(seed, DEVICES[number], length)


@pytest.mark.parametrize("seed", range(8))
def test_a_chain_of_compiled_kernels(seed: int) -> None:
    """The same on a device that compiles, with every node checked."""
    with Context(SPEC=2):
        sharded.check(seed, ("CPU", "CPU:1"), 4)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31), number=st.integers(0, 2), length=st.integers(1, 5))
def test_a_replayed_chain_is_what_it_is_on_one_device(seed: int, number: int, length: int) -> None:
    """Five calls of a step that changes its state, by a gradient or not: all are captured and agree."""
    assert sharded.check_replayed(seed, DEVICES[number], length).captured == 1


def lay_out(t: Tensor, rng: random.Random) -> Tensor:
    """A tensor of four rows and three columns on two devices, whole or cut."""
    two = ("PYTHON", "PYTHON:1")
    axis, splits = rng.choice(((None, None), (0, None), (1, None), (0, (0, 4)), (1, (1, 2))))
    return t.shard(two, axis, splits).realize()


@pytest.mark.parametrize("seed", range(12))
def test_writes_keep_the_values_of_others(seed: int) -> None:
    """Expressions, clones and writes by slice and list, realised in any order, agree with numpy copies."""
    rng = random.Random(seed)
    base = np.arange(12, dtype=np.int32).reshape(4, 3)
    pairs = [(lay_out(Tensor(base + i, device="PYTHON"), rng), base + i) for i in range(3)]
    for _ in range(16):
        (t, x), (u, y) = rng.choice(pairs), rng.choice(pairs)
        kind, at = rng.randrange(8), rng.randrange(len(pairs))
        new = [(t * 2 - u, x * 2 - y), (t.flip(0).clone(), x[::-1]), (t.clone(), x), (t[[3, 0, 2, 2]], x[[3, 0, 2, 2]])]
        value, z = rng.choice(new)
        written, into = pairs[at]
        changed = np.array(into)
        if kind <= 2:
            pairs.append((value, z))
            continue
        if kind == 3:
            written.assign(value)
            changed[:] = z
        elif kind == 4:
            start, end = sorted((rng.randrange(5), rng.randrange(5)))
            written[start:end] = value[start:end]
            changed[start:end] = z[start:end]
        elif kind == 5:
            written[[2, 0]] = value[:2]
            changed[[2, 0]] = z[:2]
        elif kind == 6:
            written[:, 1:] = 5
            changed[:, 1:] = 5
        else:
            t.realize(u)
        pairs[at] = (written, changed)
    rng.shuffle(pairs)
    for t, x in pairs:
        np.testing.assert_array_equal(t.numpy(), x)
