"""Digests of bytes against Python's hashlib, and the content hash."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from tinygraft import Tensor, dtypes
from tinygraft.errors import DTypeError

REFERENCE: dict[str, Callable[[bytes], bytes]] = {
    "sha3_224": lambda data: hashlib.sha3_224(data).digest(),
    "sha3_256": lambda data: hashlib.sha3_256(data).digest(),
    "shake_128": lambda data: hashlib.shake_128(data).digest(16),
}


def some_bytes(count: int) -> bytes:
    """Bytes that differ."""
    return bytes(i * i % 251 for i in range(count))


@pytest.mark.parametrize("name", REFERENCE)
@pytest.mark.parametrize("length", [0, 3, 135, 136, 168, 200])
def test_a_digest_is_that_of_hashlib(name: str, length: int) -> None:
    """Every configuration, for messages around the length of a block."""
    data = some_bytes(length)
    message = Tensor(data) if length else Tensor.empty(0, dtype=dtypes.uint8)
    assert bytes(message.keccak(name).tolist()) == REFERENCE[name](data)


def test_messages_are_digested_side_by_side() -> None:
    """All axes but the last are batches."""
    rows = [some_bytes(40), some_bytes(80)[40:], bytes(40)]
    found = Tensor([list(row) for row in rows], dtype=dtypes.uint8).reshape(3, 1, 40).keccak()
    assert found.shape == (3, 1, 32)
    assert [bytes(row[0]) for row in found.tolist()] == [hashlib.sha3_256(row).digest() for row in rows]


def test_a_pair_gives_rate_and_suffix() -> None:
    """(136, 6) is SHA3-256, and another suffix is another digest."""
    message = Tensor(b"abc")
    assert message.keccak((136, 6)).tolist() == message.keccak().tolist() != message.keccak((136, 1)).tolist()


def test_what_cannot_be_digested_is_named() -> None:
    """Other dtypes, unknown names and impossible rates are refused, each with a sentence."""
    with pytest.raises(DTypeError, match=r"^keccak digests bytes along the last axis, this tensor is of dtypes.int "):
        Tensor([1, 2]).keccak()
    with pytest.raises(ValueError, match=r"^keccak takes sha3_224, sha3_256, shake_128 and pairs .*, got 'md5'$"):
        Tensor(b"abc").keccak("md5")
    with pytest.raises(ValueError, match=r"^the rate of keccak is a multiple of 8 bytes between 8 and 192, got 200$"):
        Tensor(b"abc").keccak((200, 6))


def test_hash_is_of_the_content() -> None:
    """Equal bytes have one hash, in whatever shape or dtype; one other byte, or one more zero, has another."""
    t = Tensor([[1, 2], [3, 4]])
    found = t.hash().tolist()
    assert len(found) == 16
    assert found == t.flatten().hash().tolist() == t.bitcast(dtypes.uint8).hash().tolist()
    assert found == t.transpose().contiguous().transpose().hash().tolist()
    assert found != Tensor([[1, 2], [3, 5]]).hash().tolist()
    assert Tensor(bytes(4)).hash().tolist() != Tensor(bytes(5)).hash().tolist()


def test_hash_of_long_content_is_that_of_its_blocks() -> None:
    """400 bytes are three blocks, whose digests are one more message, with the length before them."""
    data = some_bytes(400)
    padded = data + bytes(80)
    digests = b"".join(hashlib.shake_128(padded[i : i + 160]).digest(16) for i in range(0, 480, 160))
    wanted = hashlib.shake_128((400).to_bytes(8, "little") + digests).digest(16)
    assert bytes(Tensor(data).hash().tolist()) == wanted
