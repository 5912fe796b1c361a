"""The page "Complex Ops", run in page order in one interpreter: every signature, and everything that it prints.

complex_ops.txt holds the signatures and the examples. Text is compared exactly; floats may differ by 1e-5. Nothing of
the page is left out. qr and svd, which the page only names, are held to what they mean.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from read_page import Result, read_page, run_cell
from seed_pages import agrees, difference, read_signatures
from tinygraft import Tensor, dtypes

PAGE = Path(__file__).parent / "complex_ops.txt"
CELLS = read_page(PAGE)
SIGNATURES = read_signatures(PAGE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def results() -> list[Result]:
    """What each cell of the page gave."""
    names = {"__name__": "complex_ops", "Tensor": Tensor, "dtypes": dtypes}
    with np.printoptions(precision=4):
        return [run_cell(cell, names) for cell in CELLS]


def test_the_page_is_whole() -> None:
    """The page has its 57 signatures and 136 examples."""
    assert (len(SIGNATURES), len(CELLS)) == (57, 136)


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_signature_is_that_of_the_page(name: str) -> None:
    """Every call that the page documents works as written: names, order and defaults of the parameters."""
    assert difference(Tensor, name, SIGNATURES[name]) == ""


@pytest.mark.parametrize("place", range(len(CELLS)), ids=[f"{n}-{cell.note}" for n, cell in enumerate(CELLS)])
def test_an_example_prints_what_the_page_shows(results: list[Result], place: int) -> None:
    """An example prints its text, and floats within 1e-5."""
    result, cell = results[place], CELLS[place]
    assert not result.error, result.error
    assert agrees(result.printed.rstrip("\n"), cell.shows), f"{result.printed}\nwhere the page shows\n{cell.shows}"


def test_qr_and_svd_take_a_matrix_apart() -> None:
    """q @ r and u @ diag(s) @ v are the matrix, with q, u and v orthogonal and s falling."""
    a = Tensor([[4.0, 1.0, 2.0], [1.0, 3.0, 0.0], [2.0, 5.0, 6.0], [0.0, 1.0, 1.0]])
    q, r = a.qr()
    u, s, v = a.svd()
    np.testing.assert_allclose((q @ r).numpy(), a.numpy(), atol=1e-5)
    np.testing.assert_allclose((u[:, :3] * s @ v).numpy(), a.numpy(), atol=1e-5)
    for one in (q, u, v):
        np.testing.assert_allclose((one.transpose() @ one).numpy(), np.eye(one.shape[1]), atol=1e-5)
    assert (np.diff(s.numpy()) <= 0).all()
