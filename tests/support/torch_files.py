"""Files as PyTorch writes them, by hand: the pickle and the storages that a test wants."""

from __future__ import annotations

import io
import pickle
import zipfile

from tinygraft import Tensor


def torch_file(data: bytes, *storages: bytes, compression: int = zipfile.ZIP_STORED, **others: bytes) -> Tensor:
    """A file of PyTorch with that pickle, those storages, and other members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        archive.writestr("a/data.pkl", data)
        for number, content in enumerate(storages):
            archive.writestr(f"a/data/{number}", content)
        for name, content in others.items():
            archive.writestr(f"a/{name}", content)
    return Tensor(out.getvalue())


def pickled(value: object) -> bytes:
    """The opcodes that push a value, without the head and the end of a pickle."""
    return pickle.dumps(value, 2)[2:-1]


def tensor_of(size: tuple[int, ...], stride: tuple[int, ...], offset: int = 0, count: int = 4) -> bytes:
    """A pickle of a float32 tensor over storage 0 of count elements."""
    storage = b"(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpu" + pickled(count) + b"tQ"
    items = b"".join(map(pickled, (offset, size, stride, False)))
    return b"\x80\2ctorch._utils\n_rebuild_tensor_v2\n(" + storage + items + b"ccollections\nOrderedDict\n)RtR."
