"""Digests of bytes: the Keccak sponge (SHA-3 and SHAKE), and a short hash of content.

A tensor of bytes in, its digests out, computed on its device: messages along the last axis, all others side by side.
The state is 25 words of 64 bits for each message; a round reads all of them, so each one is stored between two
kernels.

Source: FIPS 202, "SHA-3 Standard: Permutation-Based Hash and Extendable-Output Functions", NIST 2015.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import DTypeError
from tinygraft.tensor.primitives import size_math
from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


ROUNDS = 24
CONFIGURATIONS = {"sha3_224": (144, 0x06), "sha3_256": (136, 0x06), "shake_128": (168, 0x1F)}  # (rate, suffix)
BLOCK = 160  # bytes of content that `hash` digests at once: ten digests, and one turn of the sponge
DIGEST = 16  # bytes of what it gives


def _round_constants() -> list[int]:
    """Return the 24 constants that break the symmetry of rounds, from a shift register of 8 bits (FIPS 202, 3.2.5)."""
    found, register = [], 1
    for _ in range(ROUNDS):
        constant = 0
        for j in range(7):
            if register & 1:
                constant |= 1 << ((1 << j) - 1)
            register = (register << 1) ^ (0x171 if register & 0x80 else 0)
        found.append(constant)
    return found


def _lanes() -> tuple[list[int], list[int]]:
    """For each word of the state after a round's rho and pi: where it comes from, and by how much it is rotated."""
    source, turn = [0] * 25, [0] * 25
    x, y = 1, 0
    for step in range(24):
        new = y + 5 * ((2 * x + 3 * y) % 5)
        source[new], turn[new] = x + 5 * y, (step + 1) * (step + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    return source, turn


def keccak(self: Tensor, cfg: str | tuple[int, int] = "sha3_256") -> Tensor:
    """The digests of messages of bytes: (..., n) uint8 -> (..., d) uint8.

    cfg is sha3_224 (28 bytes), sha3_256 (32), shake_128 (16), or a pair of rate and suffix: the bytes that a block
    has, a multiple of 8 below 200, and what is appended to the message; d is half of the other 200 - rate bytes.
    Blocks of a message go one after another. Raises DTypeError for other dtypes, ValueError for another cfg.

    >>> from tinygraft import Tensor
    >>> bytes(Tensor(b"abc").keccak().tolist()).hex()[:16]
    '3a985da74fe225b2'
    """
    if isinstance(cfg, str) and cfg not in CONFIGURATIONS:
        raise ValueError(f"keccak takes {', '.join(CONFIGURATIONS)} and pairs of rate and suffix, got {cfg!r}")
    rate, suffix = CONFIGURATIONS[cfg] if isinstance(cfg, str) else cfg
    if rate % 8 or not 0 < rate < 200:
        raise ValueError(f"the rate of keccak is a multiple of 8 bytes between 8 and 192, got {rate}")
    message = _bytes_of(self, "keccak")
    *batch, length = size_math.as_ints(message.shape, "keccak")
    count = size_math.as_int(size_math.product(tuple(batch)), "keccak")
    words = _filled_up(message.reshape(count, length), rate, suffix).bitcast(dtypes.uint64)
    state = words._const(0)[:, :1].expand(count, 25)
    constants = [_listed(self, [constant], dtypes.uint64) for constant in _round_constants()]
    step = rate // 8
    for start in range(0, words.shape[1], step):
        block = words[:, start : start + step].pad(((0, 0), (0, 25 - step)))
        state = state._op(Ops.XOR, block).contiguous()
        for constant in constants:
            state = _round(state, constant)
    size = (200 - rate) // 2
    return state.bitcast(dtypes.uint8)[:, :size].reshape((*batch, size))


def _bytes_of(self: Tensor, what: str) -> Tensor:
    """Return `self`. Raises DTypeError, which names the method `what`, unless it is of uint8 with an axis."""
    if self.dtype is not dtypes.uint8 or not self.ndim:
        raise DTypeError(
            f"{what} digests bytes along the last axis, this tensor is of {self.dtype} with shape {self.shape}\n"
            f"  made at {self._where()}\n  hint: t.bitcast(dtypes.uint8) gives the bytes of any tensor"
        )
    return self


def _filled_up(self: Tensor, rate: int, suffix: int) -> Tensor:
    """Return (count, n) bytes padded to whole blocks of `rate` bytes: `suffix` after them, and the last bit set."""
    length = size_math.as_int(self.shape[1], "keccak")
    missing = rate - length % rate
    tail = [suffix] + [0] * (missing - 1)
    tail[-1] |= 0x80
    end = _listed(self, tail, dtypes.uint8)
    return self.cat(end.expand(self.shape[0], missing), dim=1)


def _round(self: Tensor, constant: Any) -> Tensor:
    """Return (count, 25) words of uint64 after one round: theta, rho, pi, chi and iota with `constant`."""
    count = self.shape[0]
    source, turn = (_listed(self, numbers, dtypes.uint64) for numbers in _lanes())
    parity = self.reshape(count, 5, 5)._reduce(Ops.XOR, 1).contiguous()
    left, right = parity.roll(1, 1), _rotated(parity.roll(-1, 1), _listed(self, [1], dtypes.uint64))
    mixed = self._op(Ops.XOR, left._op(Ops.XOR, right).repeat(1, 5))
    moved = _rotated(_take(mixed, source), turn).reshape(count, 5, 5)
    next_, after = moved.roll(-1, 2), moved.roll(-2, 2)
    chosen = moved._op(Ops.XOR, next_._op(Ops.NOT)._op(Ops.AND, after)).reshape(count, 25)
    return chosen._op(Ops.XOR, constant.pad(((0, 24),))).contiguous()


def _listed(self: Tensor, numbers: list[int], dtype: DType) -> Tensor:
    """Return numbers as a tensor of `dtype` on the device of `self`."""
    return type(self)(numbers, dtype=dtype, device=self.device)


def _take(self: Tensor, indices: Tensor) -> Tensor:
    """Return words of each row by their indices: (count, n) for n indices."""
    return self._join(Ops.GATHER, indices.cast(dtypes.int32), arg=1)


def _rotated(self: Tensor, turn: Tensor) -> Tensor:
    """Return words of uint64 rotated to the left by a number of bits each, from 1 to 63."""
    back = turn._const(64)._op(Ops.SUB, turn)
    return self._op(Ops.SHL, turn)._op(Ops.OR, self._op(Ops.SHR, back))


def hash(self: Tensor) -> Tensor:
    """16 bytes that stand for the content: equal for equal bytes, whatever shape and dtype they have.

    The SHAKE128 digests of blocks of 160 bytes, and of those in turn until one block is left; the length comes
    first in it. Blocks are digested side by side.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3]).hash().shape
    (16,)
    """
    flat = self.contiguous().flatten()
    data = flat.bitcast(dtypes.uint8) if self.dtype is not dtypes.bool else flat.cast(dtypes.uint8)
    length = size_math.as_int(data.shape[0], "hash")
    size = _listed(self, list(length.to_bytes(8, "little")), dtypes.uint8)
    while data.shape[0] > BLOCK - 8:
        missing = -data.shape[0] % BLOCK
        data = data.pad(((0, missing),)).reshape(-1, BLOCK).keccak("shake_128").flatten()
    return size.cat(data).keccak("shake_128")
