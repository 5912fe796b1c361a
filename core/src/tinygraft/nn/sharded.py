"""Safetensors in several files, with an index that says which tensor is in which: as Hugging Face writes large models.

A dict of tensors in, `model-00001-of-00003.safetensors`... and `model.safetensors.index.json` out, and back. The index
is replaced last: until then readers see the old set. It names files within its own folder, nothing else.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinygraft.errors import FileFormatError
from tinygraft.files import OpenFile, replacing, text_of_path
from tinygraft.nn.lazily import LazyTensors
from tinygraft.nn.safetensors import FilePath, check_request, safe_load, safe_save
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import Place

INDEX = ".safetensors.index.json"
_LARGEST_INDEX = 256 << 20  # assumed: bytes; an index of a million tensors has 100 MB
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def save_sharded(
    tensors: Mapping[str, Tensor],
    folder: FilePath,
    max_shard_size: int | str = "5GB",
    metadata: Mapping[str, str] | None = None,
    name: str = "model",
) -> list[str]:
    """Write tensors to a folder in files of at most max_shard_size bytes; returns the names of the files.

    A size is a number of bytes, or text such as "5GB" or "200MiB". A tensor that is larger has a file of its own. What
    fits into one file is `model.safetensors`, without an index, as Hugging Face has it. A set that is written over
    another replaces it whole: an index names one set of files, and those that it no longer names are removed after it.
    Raises as safe_save does, and ValueError for a size that is none.

    >>> import tempfile
    >>> from tinygraft import Tensor
    >>> folder = tempfile.mkdtemp()
    >>> save_sharded({"a": Tensor([1.0, 2.0]), "b": Tensor([3.0])}, folder, max_shard_size=8)
    ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors']
    >>> load_sharded(folder)["b"].tolist()
    [3.0]
    """
    most, target = _bytes_of(max_shard_size), Path(text_of_path(folder))
    check_request(tensors, metadata or {})
    shards = _shards(tensors, most)
    before = _files_of(target, name)
    if len(shards) == 1:
        files = [f"{name}.safetensors"]
        safe_save(tensors, target / files[0], metadata)
        _remove(target, [f"{name}{INDEX}", *before], files)
        return files
    stem = _free_stem(before, name, len(shards))
    files = [f"{stem}-{number:05}-of-{len(shards):05}.safetensors" for number in range(1, len(shards) + 1)]
    for file, shard in zip(files, shards, strict=True):
        safe_save({key: tensors[key] for key in shard}, target / file, metadata)
    places = {key: file for file, shard in zip(files, shards, strict=True) for key in shard}
    total = sum(int(tensor.nbytes()) for tensor in tensors.values())
    index = {"metadata": {**(metadata or {}), "total_size": total}, "weight_map": places}
    with replacing(target / f"{name}{INDEX}") as out:
        out.write(json.dumps(index, indent=2, ensure_ascii=False).encode())
    _remove(target, [*before, f"{name}.safetensors"], files)
    return files


def load_sharded(path: FilePath, device: Place = None, name: str = "model") -> dict[str, Tensor]:
    """Return the tensors of a folder that save_sharded or Hugging Face has written, or of an index file, by name.

    Each is made on `device` when it is first read, and a file of the set is opened when a tensor of it is. `name` is
    what the files begin with. Raises FileFormatError where the index is damaged, names a file outside its folder, or a
    tensor that its file does not have; FileNotFoundError where there is neither an index nor a file of one piece,
    NotADirectoryError for one file that is no index.
    """
    given = Path(text_of_path(path))
    index = given if given.name.endswith(INDEX) else given / f"{name}{INDEX}"
    if given.is_file() and not given.name.endswith(INDEX):
        raise NotADirectoryError(
            f"{given} is one file; load_sharded reads a folder, or an index *{INDEX}\n"
            "  hint: nn.state.safe_load(path) reads one file of safetensors, torch_load one of PyTorch"
        )
    if not index.exists() and not given.name.endswith(INDEX):
        return safe_load(given / f"{name}.safetensors", device)
    places = _weight_map(index)
    opened: dict[str, dict[str, Tensor]] = {}

    def make(key: str, file: str) -> Tensor:
        if file not in opened:
            opened[file] = safe_load(index.parent / file, device)
        if key not in opened[file]:
            raise FileFormatError(f"{index}: the tensor {key!r} should be in {file}, which does not have it")
        return opened[file][key]

    # os.path: False also for a name that is longer than names may be, for which Path raises OSError
    missing = sorted({file for file in places.values() if not os.path.isfile(index.parent / file)})
    if missing:
        raise FileFormatError(f"{index} names files that are not there: {missing}")
    return LazyTensors(places, make)


def _bytes_of(size: int | str) -> int:
    """Return a size, a number or text such as "5GB" or "200 MiB", in bytes. Raises ValueError for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?I?B)?", str(size).strip().upper())
    count = int(float(found[1]) * _UNITS.get(found[2] or "", 0)) if found else 0
    if count <= 0:
        raise ValueError(f"max_shard_size is a number of bytes, or text as '5GB' or '200MiB', got {size!r}")
    return count


def _shards(tensors: Mapping[str, Tensor], most: int) -> list[list[str]]:
    """Return the names of tensors in files of at most `most` bytes, in their order.

    A file is full where the next tensor does not fit; one that is larger has a file of its own. Without tensors there
    is one empty file.
    """
    shards: list[list[str]] = [[]]
    used = 0
    for name, tensor in tensors.items():
        size = int(tensor.nbytes())
        if shards[-1] and used + size > most:
            shards.append([])
            used = 0
        shards[-1].append(name)
        used += size
    return shards


def _files_of(folder: Path, name: str) -> list[str]:
    """Return the names of the files of a set in a folder; none without an index, or with one that cannot be read."""
    try:
        return sorted(set(_weight_map(folder / f"{name}{INDEX}").values()))
    except (OSError, FileFormatError):
        return []


def _free_stem(before: list[str], name: str, count: int) -> str:
    """Return the first part of names that the present set does not have: it stays whole until the index is new.

    `before` has the names of its files; `count` is how many the new set has.
    """
    for stem in (name, f"{name}-b"):
        if f"{stem}-00001-of-{count:05}.safetensors" not in before:
            return stem
    return name


def _remove(folder: Path, names: list[str], kept: list[str]) -> None:
    """Remove those of `names` from a folder that are not in `kept`; what is not there is left out."""
    for name in set(names) - set(kept):
        (folder / name).unlink(missing_ok=True)


def _weight_map(index: Path) -> dict[str, str]:
    """Return which file each tensor is in. Raises FileFormatError for what is no index, or names a file elsewhere."""
    file = OpenFile(index)
    if file.size > _LARGEST_INDEX:
        raise FileFormatError(f"{index} has {file.size} bytes; an index has at most {_LARGEST_INDEX}")
    try:
        found: Any = json.loads(file.read(0, file.size))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{index} is no index of safetensors files: {error}") from None
    places = found.get("weight_map") if isinstance(found, dict) else None
    if not isinstance(places, dict):
        raise FileFormatError(f"{index} is no index of safetensors files: it has no weight_map")
    for key, name in places.items():
        if (
            not isinstance(name, str)
            or not name
            or os.path.basename(name) != name
            or name in (".", "..")
            or "\\" in name
        ):
            raise FileFormatError(f"{index}: the tensor {key!r} is in {name!r}, which is no file beside the index")
    return places
