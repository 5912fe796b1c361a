"""Small computations whose kernels and memory nothing else has, for tests of hooks."""

import numpy as np

from tinygraft import Tensor


def values(*numbers):
    """A computation that no other test has: its kernel is made anew."""
    return (Tensor(list(numbers), device="PYTHON") * 2 + len(numbers)).tolist()


def large(size):
    """A tensor that takes memory of a size that nothing else has."""
    return Tensor(np.zeros(size, np.float32), device="PYTHON").realize()
