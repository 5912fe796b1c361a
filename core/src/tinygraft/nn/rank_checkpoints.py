"""Checkpoints of several ranks: each writes its part of the state, and any number of ranks reads it.

    nn.parallel.save_checkpoint("run", model=model, optimizer=optimizer, step=7)      # on every rank
    step = nn.parallel.load_checkpoint("run", model=model, optimizer=optimizer)["step"]

A checkpoint is a folder, which all ranks see: a safetensors file of each rank, and `checkpoint.json`, which says what
is where. That index is replaced when all files are whole on the disk; until then it names the files of the checkpoint
before, which are removed after it. So whenever ranks are killed, one whole checkpoint is there.

A tensor that all ranks have alike is cut into parts of their number; of one that is cut over a Mesh each rank writes
its shard. What ranks have different (statistics of a BatchNorm, random numbers) each writes whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinygraft.collectives import Communicator, world
from tinygraft.collectives.rank_objects import texts_of_all
from tinygraft.errors import CollectiveError, DTypeError, FileFormatError
from tinygraft.files import OpenFile, replacing, text_of_path
from tinygraft.helpers import prod
from tinygraft.nn.checkpoints import NO_PARTS, encoded, load_parts, state_of
from tinygraft.nn.lazily import LazyTensors
from tinygraft.nn.mesh import local_part
from tinygraft.nn.safetensors import FilePath, safe_load, safe_save
from tinygraft.tensor.data.reading import bytes_of
from tinygraft.tensor.ops.random import rng_state
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.sharding import OF_RANK, own_rank
from tinygraft.uop.uop import Place

INDEX = "checkpoint.json"
_VERSION = 1
_LARGEST_INDEX = 256 << 20  # assumed: bytes; an index of a million tensors has 200 MB
CUT = 1 << 16  # assumed: bytes from which a tensor is cut over the ranks; a smaller one is written by one of them


def save_checkpoint(folder: FilePath, *, step: Any = None, rng: bool = True, **parts: Any) -> None:
    """Write objects by name to a checkpoint in `folder`, whole or not at all; every rank calls it with the same parts.

    What `parts` and `step` may be nn.state.save_checkpoint says. Returns when the checkpoint is whole, on all ranks.
    Raises CollectiveError where ranks have other names, shapes or dtypes, or a folder that is not the same one,
    DTypeError and OSError as nn.state.save_checkpoint; where one rank raises, the checkpoint before stays.

    >>> import tempfile
    >>> from tinygraft import nn
    >>> folder, model = tempfile.mkdtemp(), nn.Linear(3, 2)
    >>> save_checkpoint(folder, model=model, step=7)
    >>> load_checkpoint(folder, model=nn.Linear(3, 2))["step"]
    7
    """
    if reserved := [name for name in parts if name in NO_PARTS]:
        raise DTypeError(f"a checkpoint has no part {reserved[0]!r}, an argument of load_checkpoint: rename it")
    comm, target = world(), Path(text_of_path(folder))
    tensors: dict[str, Tensor] = {}
    places: dict[int, str] = {}
    tree = {name: encoded(state_of(part, name), name, tensors, places) for name, part in parts.items()}
    content = {"parts": tree, "step": encoded(step, "step", tensors, places), "rng": rng_state() if rng else None}
    if tensors:
        first, *others = tensors.values()
        first.realize(*others)
    entries, mine = _divided(comm, tensors)
    every = texts_of_all(comm, json.dumps(content, separators=(",", ":")))
    stem = texts_of_all(comm, secrets.token_hex(6))[0]
    files = [f"{stem}-{rank:05}-of-{comm.size:05}.safetensors" for rank in range(comm.size)]
    target.mkdir(parents=True, exist_ok=True)
    safe_save(mine, target / files[comm.rank])
    comm.barrier()  # all files are whole
    if comm.rank == 0:
        if missing := [file for file in files if not (target / file).is_file()]:
            raise CollectiveError(f"rank 0 does not see {missing[0]} in {target}: ranks save to a folder that all see")
        alike = all(one == every[0] for one in every)
        index = {
            "version": _VERSION, "ranks": comm.size, "files": files, "tensors": entries,
            "content": [json.loads(one) for one in (every[:1] if alike else every)],
        }  # fmt: skip
        with replacing(target / INDEX) as out:
            out.write(json.dumps(index, separators=(",", ":"), ensure_ascii=False).encode())
        _remove_others(target, files)
    comm.barrier()


def load_checkpoint(
    folder: FilePath, *, rng: bool = True, strict: bool = True, device: Place = None, **parts: Any
) -> dict[str, Any]:
    """Read a checkpoint of `save_checkpoint` into objects, on any number of ranks; returns the step and other parts.

    On as many ranks as it was saved on each has what it had, bit for bit. On another number all have what the ranks had
    alike, and of what they had different that of rank 0; random numbers are then left as they are if each rank had its
    own, and on one rank those of a Mesh go on. Tensors of a Mesh get their shards. Otherwise it is
    nn.state.load_checkpoint, which says what raises; FileFormatError too for a damaged index and missing files,
    CollectiveError where ranks read another checkpoint.
    """
    comm, target = world(), Path(text_of_path(folder))
    index = _index_of(target / INDEX)
    if len(set(texts_of_all(comm, str(index["files"])))) > 1:
        raise CollectiveError(f"ranks read different checkpoints in {target}: another program saves to it")
    same = index["ranks"] == comm.size
    opened: dict[int, Mapping[str, Tensor]] = {}

    def make(name: str, entry: Any) -> Tensor:
        return _joined(name, entry, lambda rank: _opened(target, index, opened, rank, device), comm.rank if same else 0)

    content = dict(index["content"][comm.rank if same and len(index["content"]) > 1 else 0])
    if not same and len({json.dumps(one.get("rng")) for one in index["content"]}) > 1:
        rng = False
    if content.get("rng"):
        content["rng"] = _for_ranks(content["rng"], index["ranks"], comm.size)
    if missing := [file for file in index["files"] if not (target / file).is_file()]:
        raise FileFormatError(f"{target / INDEX} names files that are not there: {missing}")
    return load_parts(os.fspath(target), content, LazyTensors(index["tensors"], make), rng, strict, parts)


def _for_ranks(state: dict[str, Any], saved: int, here: int) -> dict[str, Any]:
    """Return a state of random numbers that `saved` ranks had for `here` ranks.

    One process draws those of a Mesh and its own from one device, several from two names: on one rank those of the Mesh
    go on, and where one rank has saved both names do.
    """
    devices = dict(state["devices"])
    of_mesh = {name.partition(OF_RANK)[0]: drawn for name, drawn in devices.items() if OF_RANK in name}
    if here == 1 < saved:
        devices = {name: drawn for name, drawn in devices.items() if OF_RANK not in name} | of_mesh
    elif saved == 1 < here:
        devices |= {f"{name}{OF_RANK}0": drawn for name, drawn in devices.items()}
    return state | {"devices": devices}


def _divided(comm: Communicator, tensors: Mapping[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the entries of the index, by name, and what this rank writes.

    An entry has the shape, and how the tensor is cut: "flat" along its elements, an axis, None where one rank has all
    of it, "own" where each has another one; and the pieces, [rank, size] in their order. Raises CollectiveError where
    ranks have different names, shapes or dtypes.
    """
    import numpy as np

    facts = {name: _facts(t) for name, t in tensors.items()}
    if len({*texts_of_all(comm, json.dumps([[*item] for item in facts.items()]))}) > 1:
        raise CollectiveError("ranks save different states: names, shapes, dtypes and layouts have to be alike on all")
    digests = np.zeros((len(tensors), 16), np.uint8)
    local = {name: local_part(t) for name, t in tensors.items()}
    for number, (name, t) in enumerate(local.items()):
        if facts[name][2] is None:
            digests[number] = np.frombuffer(hashlib.blake2b(bytes_of(t), digest_size=16).digest(), np.uint8)
    alike = (comm.all_gather(digests) == digests).all(axis=(0, 2))
    alike = comm.all_reduce(alike, "min")
    entries: dict[str, Any] = {}
    mine: dict[str, Tensor] = {}
    for number, (name, t) in enumerate(local.items()):
        entry, part = _piece(comm, number, t, facts[name], bool(alike[number]))
        entries[name] = entry
        if part is not None:
            mine[name] = part
    return entries, mine


def _facts(t: Tensor) -> tuple[list[int], str, Any]:
    """Return the shape and the dtype of a tensor, and how a Mesh cuts it: [axis, sizes], or None."""
    layout = t.uop.sharding if own_rank(t.device) is not None else None
    return list(t.shape), t.dtype.name, None if layout is None else [layout.axis, list(layout.sizes)]


def _piece(
    comm: Communicator, number: int, t: Tensor, facts: tuple[list[int], str, Any], alike: bool
) -> tuple[dict[str, Any], Tensor | None]:
    """Return the entry of tensor `number`, and what this rank writes of it, whose part `t` is; None for nothing.

    `facts` are those of the whole, `alike` says whether all ranks have the same values.
    """
    shape, _, layout = facts
    if layout is not None:
        axis, sizes = layout
        pieces = [[rank, size] for rank, size in enumerate(sizes) if size]
        return {"shape": shape, "cut": axis, "pieces": pieces}, t if sizes[comm.rank] else None
    count = prod(shape)
    if not alike:
        return {"shape": shape, "cut": "own", "pieces": []}, t
    if t.dtype.kind == "complex" or count * t.dtype.itemsize < CUT or comm.size == 1:
        writer = number % comm.size
        return {"shape": shape, "cut": None, "pieces": [[writer, count]]}, t if writer == comm.rank else None
    ends = [count * rank // comm.size for rank in range(comm.size + 1)]
    pieces = [[rank, ends[rank + 1] - ends[rank]] for rank in range(comm.size) if ends[rank + 1] > ends[rank]]
    first, end = ends[comm.rank : comm.rank + 2]
    return {"shape": shape, "cut": "flat", "pieces": pieces}, t.reshape(-1)[first:end] if end > first else None


def _joined(name: str, entry: Any, file: Any, rank: int) -> Tensor:
    """Return a tensor from the pieces of `entry`, lazily; `file` returns the tensors of a rank by its number.

    `rank` is the one whose own values are read where each rank had others. Raises FileFormatError where pieces do not
    make the tensor.
    """
    try:
        shape, cut, pieces = tuple(entry["shape"]), entry["cut"], entry["pieces"]
        if cut == "own":
            found: Tensor = file(rank)[name]
        else:
            parts = [file(writer)[name] for writer, _ in pieces]
            axis = 0 if cut in (None, "flat") else cut
            found = parts[0] if len(parts) == 1 else parts[0].cat(*parts[1:], dim=axis)
            found = found.reshape(shape) if cut == "flat" else found
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise FileFormatError(f"the checkpoint has no whole tensor {name!r}: {error}") from error
    if found.shape != shape:
        raise FileFormatError(f"the checkpoint's tensor {name!r} should have shape {shape}, its pieces {found.shape}")
    return found


def _opened(
    folder: Path, index: Mapping[str, Any], opened: dict[int, Mapping[str, Tensor]], rank: int, device: Place
) -> Mapping[str, Tensor]:
    """Return the tensors that a rank wrote, by name; `opened` has the files that are open, by rank."""
    if rank not in opened:
        opened[rank] = safe_load(folder / index["files"][rank], device)
    return opened[rank]


def _index_of(path: Path) -> dict[str, Any]:
    """Return the index of a checkpoint. Raises FileFormatError for what is none, or of another version."""
    file = OpenFile(path)
    found: Any = None
    if file.size <= _LARGEST_INDEX:
        try:
            found = json.loads(file.read(0, file.size))
        except (ValueError, RecursionError):
            pass
    if not isinstance(found, dict) or not isinstance(found.get("tensors"), dict):
        raise FileFormatError(f"{path} is no index of a checkpoint of ranks")
    if found.get("version") != _VERSION:
        raise FileFormatError(f"{path} is a checkpoint of version {found.get('version')!r}; version {_VERSION} is read")
    files, content = found.get("files") or [], found.get("content") or []
    named = isinstance(files, list) and all(isinstance(f, str) and os.path.basename(f) == f and f for f in files)
    told = isinstance(content, list) and all(isinstance(c, dict) and isinstance(c.get("parts"), dict) for c in content)
    if not named or not told or len(files) != found.get("ranks") or len(content) not in (1, len(files)):
        raise FileFormatError(f"{path} is damaged: it does not name a file and a state of each rank")
    return found


def _remove_others(folder: Path, kept: list[str]) -> None:
    """Remove files of ranks that the index does not name: of the checkpoint before, and of killed programs."""
    for path in folder.glob("?" * 12 + "-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9].safetensors"):
        if path.name not in kept:
            path.unlink(missing_ok=True)
