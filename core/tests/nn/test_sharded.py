"""Safetensors in several files with an index: read, written, replaced, and indices that lie."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from tinygraft import Tensor
from tinygraft.errors import FileFormatError
from tinygraft.nn.state import load_sharded, save_sharded

LENGTHS = {"a": 10, "b": 20, "c": 5, "d": 40}
TENSORS = {name: np.full((n,), i, np.float32) for i, (name, n) in enumerate(LENGTHS.items())}


def tensors() -> dict[str, Tensor]:
    """Four tensors of 40, 80, 20 and 160 bytes."""
    return {name: Tensor(array) for name, array in TENSORS.items()}


def names(folder: Path) -> list[str]:
    """The files of a folder."""
    return sorted(file.name for file in folder.iterdir())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """By us, and file by file by the package safetensors; a tensor that is too large has a file of its own."""
    files = save_sharded(tensors(), tmp_path, max_shard_size=120, metadata={"kind": "test"})
    assert files == [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["weight_map"] == {"a": files[0], "b": files[0], "c": files[1], "d": files[2]}
    assert index["metadata"] == {"kind": "test", "total_size": 300}
    for name, file in index["weight_map"].items():
        assert (safetensors.numpy.load_file(tmp_path / file)[name] == TENSORS[name]).all()
    for where in (tmp_path, tmp_path / "model.safetensors.index.json"):
        found = load_sharded(where)
        assert list(found) == list(TENSORS)
        assert found["a"].uop.base.realized is None
        assert all((found[name].numpy() == TENSORS[name]).all() for name in TENSORS)


def test_what_fits_is_one_file_without_an_index(tmp_path: Path) -> None:
    """As Hugging Face has it; sizes may be text."""
    assert save_sharded(tensors(), tmp_path, max_shard_size="1KB") == ["model.safetensors"]
    assert names(tmp_path) == ["model.safetensors"]
    assert (load_sharded(tmp_path)["d"].numpy() == TENSORS["d"]).all()


def test_a_set_is_saved_over_the_one_that_its_tensors_are_in(tmp_path: Path) -> None:
    """In the same number of files, in others, and in one; nothing of the old set remains."""
    save_sharded(tensors(), tmp_path, max_shard_size=120)
    for size in (120, 120, 90, 1000, 120):
        found = {name: tensor + 1 for name, tensor in load_sharded(tmp_path).items()}
        kept = {name: tensor.numpy() for name, tensor in found.items()}
        files = save_sharded(dict(load_sharded(tmp_path).items()), tmp_path, size)
        assert names(tmp_path) == sorted([*files, *(["model.safetensors.index.json"] if len(files) > 1 else [])])
        assert all((load_sharded(tmp_path)[name].numpy() + 1 == kept[name]).all() for name in kept)


def test_a_size_that_is_none_is_refused(tmp_path: Path) -> None:
    """With what a size is."""
    for size in (0, -1, "5XB", "many"):
        with pytest.raises(ValueError, match="max_shard_size is a number of bytes, or text"):
            save_sharded(tensors(), tmp_path, size)


def test_an_index_that_lies_is_refused(tmp_path: Path) -> None:
    """One that leads out of its folder, to no file, to a file without the tensor, or is none."""
    save_sharded(tensors(), tmp_path, max_shard_size=120)
    index = tmp_path / "model.safetensors.index.json"
    good = json.loads(index.read_text())["weight_map"]
    for places, why in (
        ({"a": "../x.safetensors"}, "which is no file beside the index"),
        ({"a": "/etc/passwd"}, "which is no file beside the index"),
        ({"a": 3}, "which is no file beside the index"),
        ({"a": ".."}, "which is no file beside the index"),
        ({"a": "gone.safetensors"}, r"names files that are not there: \['gone.safetensors'\]"),
        ({"a": "a" * 10_000}, "names files that are not there"),
        (["a"], "it has no weight_map"),
    ):
        index.write_text(json.dumps({"weight_map": places}))
        with pytest.raises(FileFormatError, match=why):
            load_sharded(tmp_path)
    index.write_text("[" * 100_000)
    with pytest.raises(FileFormatError, match="is no index"):
        load_sharded(tmp_path)
    index.write_text(json.dumps({"weight_map": {**good, "e": good["a"]}}))
    with pytest.raises(FileFormatError, match="the tensor 'e' should be in"):
        load_sharded(tmp_path)["e"]
    index.unlink()
    with pytest.raises(FileNotFoundError):
        load_sharded(tmp_path)
