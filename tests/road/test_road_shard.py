"""Tensors on several devices: every chain of operations has the values and gradients that it has on one device."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sharded
from tinygraft import Context

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
