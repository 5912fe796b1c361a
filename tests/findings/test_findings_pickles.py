"""Findings about files of PyTorch, by their numbers: 1.15 and 3.1.

What a pickle in such a file may say, and what it may not do.
"""

from __future__ import annotations

import pickle
import pickletools
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, dtypes
from tinygraft.errors import FileFormatError, UnsupportedError
from tinygraft.nn import pickled as pickled_reader
from tinygraft.nn import torchfile
from tinygraft.nn.state import torch_load
from torch_files import pickled, tensor_of, torch_file

NUMBERS = np.arange(1000, dtype=np.float32)


# 1.15


@pytest.mark.parametrize("new", [True, False])
def test_1_15_marks_that_pytorch_has_not_computed_yet(tmp_path: Path, new: bool) -> None:
    """The conjugate and the negative bit of a tensor are part of its value, together, of parts and of views."""
    torch = pytest.importorskip("torch")
    z = torch.tensor([[1 + 2j, 3 - 4j], [5j, -6 + 0j]])
    values = {"conj": z.conj(), "neg": z.conj().imag, "row": z.conj()[1], "turned": z.T.conj(), "plain": z}
    assert values["neg"].is_neg()
    for name, value in values.items():
        torch.save([value], tmp_path / name, _use_new_zipfile_serialization=new)
        (found,) = torch_load(tmp_path / name)
        np.testing.assert_array_equal(found.numpy(), value.resolve_conj().resolve_neg().numpy(), name)


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"])
def test_1_15_dtypes_of_storages_of_bytes(tmp_path: Path, name: str) -> None:
    """Tensors of the newer dtypes, whose storage has no dtype, and dtypes as values."""
    torch = pytest.importorskip("torch")
    value = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(torch, name))
    torch.save({"a": value, "dtype": value.dtype}, tmp_path / "a.pt")
    found = torch_load(tmp_path / "a.pt")
    assert found["dtype"] is found["a"].dtype
    assert found["a"].float().tolist() == value.float().tolist()


@pytest.mark.parametrize(
    ("size", "stride", "offset", "needed"),
    [
        ((5,), (1,), 0, 5), ((2,), (4,), 0, 5), ((2, 2), (1, 3), 0, 5), ((1,), (1,), 4, 5),
        ((2,), (1 << 59,), 0, (1 << 59) + 1),
    ],
)  # fmt: skip
def test_1_15_strides_that_reach_past_the_storage(
    size: tuple[int, ...], stride: tuple[int, ...], offset: int, needed: int
) -> None:
    """A tensor that needs more than its storage has is an error of the file; it read zeros."""
    message = (
        f"this file has a tensor of shape {size} with strides {stride} from element {offset} on: its storage has 4 "
        f"elements, {needed} are needed"
    )
    with pytest.raises(FileFormatError) as caught:
        torch_load(torch_file(tensor_of(size, stride, offset), NUMBERS[:4].tobytes()))
    assert str(caught.value) == message


def test_1_15_strides_within_the_storage() -> None:
    """Overlapping, repeated and turned views are read as they were."""
    cases = [((2, 2), (1, 2)), ((3, 2), (0, 1)), ((2, 3), (1, 1)), ((1, 1), (9, 9)), ((), ()), ((0, 3), (3, 1))]
    for size, stride in cases:
        found = torch_load(torch_file(tensor_of(size, stride), NUMBERS[:4].tobytes()))
        wanted = np.lib.stride_tricks.as_strided(NUMBERS[:4], size, [4 * step for step in stride])
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_1_15_a_storage_that_is_shorter_than_it_should_be() -> None:
    """The pickle says how many elements a storage has, the archive how many bytes."""
    with pytest.raises(FileFormatError, match=r"^'a/data/0' in this zip archive has 8 bytes, 16 are needed$"):
        torch_load(torch_file(tensor_of((1,), (1,)), bytes(8)))
    with pytest.raises(FileFormatError, match=r"^there is no 'a/data/0' in this zip archive$"):
        torch_load(torch_file(tensor_of((1,), (1,))))


# 3.1


def test_3_1_build_changes_nothing_that_was_there() -> None:
    """BUILD on a dtype made float32 one byte wide for the process; on a function it set attributes of ours."""
    state = pickled(("float", 1, "?", 0))
    attributes = pickled({"hacked": 1})
    names = (
        "torch\nFloatStorage", "torch\nfloat32", "torch._utils\n_rebuild_tensor_v2", "torch\nSize",
        "torch.nn.parameter\nParameter", "collections\nOrderedDict",
    )  # fmt: skip
    for name in names:
        for change in (state, attributes):
            data = b"\x80\2c" + name.encode() + b"\n" + change + b"b."
            with pytest.raises(FileFormatError, match="^the pickle adds to .*, not to a OrderedDict$"):
                torch_load(torch_file(data))
    for target in (b"]", b"}", b")", b"X\1\0\0\0a", b"K\1", tensor_of((1,), (1,))[2:-1]):
        with pytest.raises(FileFormatError, match="^the pickle adds to "):
            torch_load(torch_file(b"\x80\2" + target + attributes + b"b.", NUMBERS[:4].tobytes()))
    assert (dtypes.float32.itemsize, Tensor([1.0, 2.0]).nbytes()) == (4, 8)
    assert not any(hasattr(thing, "hacked") for thing in (torchfile._tensor, torchfile._parameter, OrderedDict, tuple))


def test_3_1_the_attributes_of_a_state_dict() -> None:
    """An OrderedDict keeps the attributes that PyTorch gives it; its methods stay what they are."""
    made = b"\x80\2ccollections\nOrderedDict\n)R"
    found = torch_load(torch_file(made + pickled({"_metadata": {"version": 1}}) + b"b."))
    assert (type(found), found._metadata) == (OrderedDict, {"version": 1})
    for name in ("items", "__class__", "__dict__", "move_to_end"):
        with pytest.raises(FileFormatError, match=f"^the pickle replaces '{name}' of an OrderedDict$"):
            torch_load(torch_file(made + pickled({name: 1}) + b"b."))


def call_of(module: str, name: str, *arguments: object) -> list[bytes]:
    """A pickle that calls something, by each opcode that does."""
    items = b"".join(pickled(argument) for argument in arguments)
    found = f"{module}\n{name}\n".encode()
    stack = b"\x8c" + bytes([len(module)]) + module.encode() + b"\x8c" + bytes([len(name)]) + name.encode() + b"\x93"
    return [b"c" + found + b"(" + items + b"tR.", b"(" + items + b"i" + found + b".", stack + b"(" + items + b"t\x81."]


def test_3_1_nothing_is_called_by_name(capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever opcode calls it; what is known is called with what PyTorch gives it and nothing else."""
    for data in call_of("os", "system", "echo called"):
        with pytest.raises(
            UnsupportedError, match=r"^this file has an object of os\.system, which torch_load does not"
        ):
            torch_load(torch_file(data))
    wrong: list[tuple[str, str, tuple[Any, ...]]] = [
        ("torch._utils", "_rebuild_tensor_v2", (1, 2, 3, 4)),
        ("torch._utils", "_rebuild_tensor_v2", ()),
        ("torch._utils", "_rebuild_parameter", ("text",)),
        ("collections", "OrderedDict", ("text",)),
        ("collections", "OrderedDict", ([[1, 2, 3]],)),
        ("collections", "OrderedDict", ([[[], 2]],)),
        ("torch", "Size", ((1, -1),)),
        ("torch", "Size", ((1,) * 65,)),
        ("torch._tensor", "_rebuild_from_type_v2", (1, 2, (3,), 4)),
        ("torch", "FloatStorage", (3,)),
        ("torch", "float32", ()),
    ]
    for module, name, arguments in wrong:
        for data in call_of(module, name, *arguments):
            with pytest.raises(FileFormatError):
                torch_load(torch_file(data))
    assert capfd.readouterr().out == ""


def test_3_1_a_pickle_takes_no_more_than_it_has() -> None:
    """Lengths and places that are lies, lists that are copied again and again, keys that take long to hash."""
    deep = b")" + b"\x85" * 100_000
    wide = b"(" + b"K\1" * 1000 + b"t"
    shared = b")" + b"2\x86" * 60  # a tuple of two of the one before
    pairs = b"(" + b"K\1K\2\x86" * 1000 + b"lq\1"
    lies: dict[bytes, str] = {
        b"T\xff\xff\xff\x7f": "the pickle ends early: it needs 2147483647 more bytes",
        b"\x8d" + b"\xff" * 7 + b"\x7f": "the pickle ends early",
        b"\x8b\xff\xff\xff\x7f": "the pickle ends early",
        b"\x96" + b"\xff" * 7 + b"\x3f": "the pickle ends early",
        b"j\xff\xff\xff\xff.": "it takes what it has not made",
        b"I" + b"9" * 70_000 + b"\n.": "a line without an end",
        b"I" + b"9" * 60_000 + b"\n.": "this is no pickle of data: Exceeds the limit",
        b"}" + deep + b"K\1s.": "a tuple as the key of a dict",
        b"}" + wide + b"K\1s.": "a tuple as the key of a dict",
        b"}" + shared + b"K\1s.": "a tuple as the key of a dict",
        b"}]K\1s.": "a list as the key of a dict",
        pairs + b"ccollections\nOrderedDict\nq\2" + b"h\2h\1\x85R" * 1000 + b".": "this file copies more than it has",
    }
    for data, message in lies.items():
        with pytest.raises(FileFormatError, match=message):
            torch_load(torch_file(b"\x80\2" + data))
    assert torch_load(torch_file(b"\x80\2K\7r\xff\xff\xff\x7f.")) == 7  # the memo is no list of two billion places


def test_3_1_data_comes_back() -> None:
    """Whatever a pickle of data has, in every protocol, is read as Python reads it."""
    shared = [1, 2]
    value = {
        "numbers": [0, 1, -1, 255, 65536, -(2**31), 2**40, -(2**200), 1.5, -0.0, float("inf"), True, False, None],
        "texts": ["", "a", "é", "\u20ac" * 300, "a\nb\\", b"", b"bytes", b"\xff" * 300],
        "tuples": [(), (1,), (1, 2), (1, 2, 3), tuple(range(10))],
        ("a", (1, None)): {1: {2: {}}, 1.5: [], b"b": shared, None: shared},
    }
    for protocol in range(6):
        found = torch_load(torch_file(pickle.dumps(value, protocol)))
        assert found == value
        assert found["a", (1, None)][b"b"] is found["a", (1, None)][None]
    for extra in (set(), {1, "a"}, frozenset({2}), bytearray(b"abc")):
        assert torch_load(torch_file(pickle.dumps(extra, 5))) == extra
    assert torch_load(torch_file(pickle.dumps({1, "a"}, 2))) == {1, "a"}


def test_3_1_every_opcode_of_data_is_known() -> None:
    """The reader of pickles has a step for each opcode but those that only objects and extensions need."""
    refused = {"OBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER", "STRING"}
    names = {op.name for op in pickletools.opcodes if op.code.encode("latin-1") in pickled_reader._STEPS}
    assert names == {op.name for op in pickletools.opcodes} - refused - {"STOP"}


def test_a_storage_that_is_named_with_two_sizes() -> None:
    """The second tensor had the bytes of the first one's size, and an error of the shape that it asked for."""
    tensors = [tensor_of((count,), (1,), count=count)[2:-1] for count in (2, 4)]
    both = b"\x80\2(" + b"".join(tensors) + b"t."
    with pytest.raises(FileFormatError, match=r"^this file has storage '0' with two dtypes or sizes$"):
        torch_load(torch_file(both, NUMBERS[:4].tobytes()))


# Numbers of NumPy, as in {"loss": np.float64(0.5)}


@pytest.mark.parametrize("new", [True, False])
def test_numbers_of_numpy_are_read(tmp_path: Path, new: bool) -> None:
    """Each kind of them, beside tensors, as torch.save writes it; the type is kept."""
    torch = pytest.importorskip("torch")
    kinds = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "b1", "c8", "c16"]
    values = {kind: np.dtype(kind).type(1) for kind in kinds} | {"loss": np.float64(-0.3), "t": torch.ones(2)}
    torch.save(values, tmp_path / "a.pt", _use_new_zipfile_serialization=new)
    found = torch_load(tmp_path / "a.pt")
    assert found.pop("t").tolist() == [1, 1]
    assert {k: (type(v), v) for k, v in found.items()} == {k: (type(v), v) for k, v in values.items() if k != "t"}


@pytest.mark.parametrize(
    ("made", "error", "sentence"),
    [
        (b"cnumpy\ndtype\n" + b"X\2\0\0\0O8\x89\x88\x87R", FileFormatError, "has the dtype 'O8' of NumPy"),
        (b"cnumpy\ndtype\nX\2\0\0\0f8\x85R" + pickled({"a": 1}) + b"b", FileFormatError, "'f8' of NumPy a state"),
        (b"cnumpy\ndtype\nX\2\0\0\0f8\x85R" + pickled((3, ">", None, None, None, -1, -1, 0)) + b"b",
         UnsupportedError, "high byte is first"),
        (b"cnumpy._core.multiarray\nscalar\ncnumpy\ndtype\nX\2\0\0\0f8\x85RC\2ab\x86R", FileFormatError,
         "a number of 2 bytes, and float64 has 8"),
        (b"cnumpy._core.multiarray\nscalar\ncnumpy\ndtype\nC\2ab\x86R", FileFormatError, "a number of numpy.dtype"),
        (b"cnumpy._core.multiarray\n_reconstruct\n", UnsupportedError, "_reconstruct, which torch_load does not make"),
    ],
)  # fmt: skip
def test_of_numpy_only_numbers_are_read(made: bytes, error: type[Exception], sentence: str) -> None:
    """Another dtype, another state, another length: named, and nothing is made."""
    with pytest.raises(error, match=sentence):
        torch_load(torch_file(b"\x80\3" + made + b"."))
