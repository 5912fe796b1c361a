"""Thread blocks in the C family, compiled and run: a thread of the host for each thread of a block."""

from __future__ import annotations

import numpy as np
import pytest

from group_kernels import candidates_of, convolution, linear_of, matmul, normalised, numbers, run, windows
from host_groups import HostGroups

pytestmark = pytest.mark.needs("cc")


@pytest.fixture(scope="module")
def host() -> HostGroups:
    """Threads of the host."""
    return HostGroups()


@pytest.mark.parametrize("name", ["block", "team", "local"])
def test_products_of_matrices(host: HostGroups, name: str) -> None:
    """Shared memory, barriers and edges as the source has them."""
    n, m, depth = 67, 41, 37
    a, b = numbers(n, depth), numbers(depth, m, seed=1)
    one = next(a for a in candidates_of(matmul(n, m, depth)) if a.name == name)
    (got,) = run(linear_of(matmul(n, m, depth), one), [n * m], a, b, backend=host)
    np.testing.assert_array_equal(got.reshape(n, m), a @ b)


def test_convolutions(host: HostGroups) -> None:
    """Windows that reach over the border, in tiles."""
    batch, channels, height, width, out = 2, 3, 7, 5, 11
    image, weight = numbers(batch, channels, height, width), numbers(out, channels, 3, 3, seed=1)
    kernel = convolution(batch, channels, height, width, out)
    want = np.einsum("bcyxpq,ocpq->boyx", windows(image), weight)
    (got,) = run(linear_of(kernel, candidates_of(kernel)[0]), [want.size], image, weight, backend=host)
    np.testing.assert_array_equal(got.reshape(want.shape), want)


@pytest.mark.parametrize("name", ["team", "local"])
def test_rows(host: HostGroups, name: str) -> None:
    """Sums of rows by a thread block, used by all of its threads."""
    rows, columns = 13, 211
    x = numbers(rows, columns)
    less = x - x.max(1, keepdims=True)
    one = next(a for a in candidates_of(normalised(rows, columns)) if a.name == name)
    values, totals = run(linear_of(normalised(rows, columns), one), [rows * columns, rows], x, backend=host)
    np.testing.assert_array_equal(totals, less.sum(1))
    np.testing.assert_array_equal(values.reshape(rows, columns), less * less.sum(1, keepdims=True))
