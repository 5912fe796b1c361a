"""Collation: what samples become, as PyTorch's documentation says, and what is refused."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.nn.data import DataLoader, as_tensors, default_collate

Point = namedtuple("Point", "x y")


def test_containers_keep_their_form() -> None:
    """Tuples, named tuples, lists and dicts, inside each other; text and bytes become lists."""
    sample = {"p": Point(1, 2.5), "l": [True, (np.float64(3), "name")], "b": b"x"}
    batch = default_collate([sample, sample])
    assert isinstance(batch["p"], Point) and batch["p"].x.tolist() == [1, 1] and batch["p"].y.tolist() == [2.5, 2.5]
    (flag, (number, name)), data = batch["l"], batch["b"]
    assert flag.tolist() == [True, True] and number.dtype.name == "double" and name == ["name"] * 2
    assert data == [b"x"] * 2


def test_numbers_have_the_dtype_that_tensor_gives_them() -> None:
    """The default ones, and a wider one where it is needed."""
    for column in ([1, 2], [1, 2.5], [True, False], [1, 2**40]):
        batch = default_collate(column)
        assert (batch.dtype, batch.tolist()) == (Tensor(column).dtype, Tensor(column).tolist())


def test_images_and_complex_numbers() -> None:
    """What says by __array_interface__ that it is an array is one; complex numbers are complex tensors."""
    from PIL import Image

    image = Image.new("RGB", (3, 2))
    assert default_collate([image, image]).shape == (2, 2, 3, 3)
    assert default_collate([1j, 2]).tolist() == [1j, 2]


def test_tensors_of_pytorch() -> None:
    """With gradients, in bfloat16, parameters; and batches of its loader."""
    torch = pytest.importorskip("torch", reason="its tensors are samples here")
    for dtype in ("bfloat16", "float16", "float32", "int64", "bool", "float8_e5m2"):
        samples = [torch.ones(2).to(getattr(torch, dtype)), torch.zeros(2).to(getattr(torch, dtype))]
        batch = default_collate(samples)
        assert batch.tolist() == [[1, 1], [0, 0]] and batch.dtype == Tensor(samples[0]).dtype
    assert default_collate([torch.nn.Parameter(torch.ones(2))]).tolist() == [[1, 1]]
    assert default_collate([torch.ones(2, requires_grad=True) * 2]).tolist() == [[2, 2]]
    data = torch.utils.data.TensorDataset(torch.arange(6.0).reshape(3, 2), torch.arange(3))
    theirs = [as_tensors(batch) for batch in torch.utils.data.DataLoader(data, 2)]
    ours = list(DataLoader(data, 2))
    for (x, y), (a, b) in zip(theirs, ours, strict=True):
        assert isinstance(x, Tensor) and x.tolist() == a.tolist() and y.tolist() == b.tolist() and y.dtype == b.dtype
    generator = torch.Generator().manual_seed(3)
    assert DataLoader(data, generator=generator).seed == 3


def test_samples_that_do_not_fit() -> None:
    """Shapes, lengths and keys that differ, and what no tensor is made of, with the place in the sample."""
    hint = "\n  hint: give DataLoader a collate_fn that pads them, or batch_size=None"
    cases: list[tuple[Any, type[Exception], str]] = [
        ([{"a": np.ones(2)}, {"a": np.ones(3)}], ShapeError,
         f"samples 0 and 1 of a batch have the shapes (2,) and (3,) at ['a']{hint}"),
        ([(1, [2]), (1, [2, 3])], ShapeError, f"samples 0 and 1 of a batch have the lengths 1 and 2 at [1]{hint}"),
        ([{"a": 1}, {"b": 1}], ShapeError, f"samples 0 and 1 of a batch have the keys ['a'] and ['b']{hint}"),
        ([[1], 2], ShapeError, f"samples 0 and 1 of a batch have the lengths 1 and int{hint}"),
        ([], ShapeError, "a batch is made of samples, and there are none"),
        ([(1, None)], DTypeError, "a batch is made of arrays, numbers, text, and tuples, lists and dicts of them; the "
         "samples have NoneType at [1]\n  hint: give DataLoader a collate_fn, which gets the list of samples"),
        ([1, None], DTypeError, "a batch is made of arrays, numbers, text, and tuples, lists and dicts of them; the "
         "samples have int and NoneType\n  hint: give DataLoader a collate_fn, which gets the list of samples"),
        ([Tensor([1.0], dtype="bfloat16"), Tensor([1.0])], DTypeError,
         "the samples of a batch have the dtypes bfloat16 and float"),
    ]  # fmt: skip
    for samples, error, message in cases:
        with pytest.raises(error) as caught:
            default_collate(samples)
        assert str(caught.value) == message


def test_as_tensors_refuses_a_loader() -> None:
    """It came back as it was, and its batches as another library's."""
    loader = DataLoader([1, 2, 3], batch_size=2)
    for several in (loader, iter(loader)):
        with pytest.raises(
            TypeError, match=r"takes one batch, got a .*\n  hint: for batch in map\(as_tensors, loader\)"
        ):
            as_tensors(several)


def test_as_tensors_leaves_what_is_no_array() -> None:
    """Text, numbers, None, and arrays of text, which become lists."""
    batch = as_tensors({"t": ["a"], "n": [1, None], "s": np.array(["x"]), "x": np.float32(2)})
    assert batch["t"] == ["a"] and batch["n"] == [1, None] and batch["s"] == ["x"] and batch["x"].item() == 2
