"""Random numbers: Threefry 2x32 with a counter for each device, equal on every device and with every compiler.

A shape in, a lazy tensor of random values out. The state of a device is one buffer of two uint64: how many 32-bit
words have been drawn, and the key. In a capture a draw of n words first assigns the counter plus n, then reads it back
and takes n off again; so each draw depends on the update that goes with it, graphs of equal draws are equal, and a
replayed graph moves on by itself. Outside of one the host counts, where it sees that memory (drawn_now.py).

Source of the generator: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tinygraft.autograd.build import laid
from tinygraft.device.registry import Device
from tinygraft.dtype import DType, DTypeLike, bits_of, coerce, dtypes, part_of, to_dtype
from tinygraft.engine.exclusive import exclusive
from tinygraft.errors import DeviceError, DTypeChoiceError, DTypeError, FileFormatError, ShapeError
from tinygraft.start_seed import start_seed
from tinygraft.tensor.data.assigning import rebind
from tinygraft.tensor.data.from_python import bytes_node
from tinygraft.tensor.ops.drawn_now import draw_now, note_graph
from tinygraft.tensor.primitives import index_checks, size_math
from tinygraft.tensor.primitives.argument_checks import as_number
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.casting import as_positions, bits_as, narrower, wider
from tinygraft.tensor.primitives.creation import in_complex, laid_as, like_options
from tinygraft.tensor.primitives.iota import iota
from tinygraft.tensor.primitives.movement import reshaped, sliced
from tinygraft.tensor.primitives.number_range import check, fitting
from tinygraft.tensor.primitives.size_math import as_ints, as_sizes
from tinygraft.tensor.state.gradient_cuts import name_cut
from tinygraft.uop.held import memory_base
from tinygraft.uop.ops import Ops, ScanArg
from tinygraft.uop.sharding import OF_RANK, local_devices, own_rank
from tinygraft.uop.sizes import Shape
from tinygraft.uop.uop import Place, UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


# What a device's draws depend on: its name, and the tensor of (words drawn, key).
_states: dict[str, Any] = {}
# How many of its draws have not been computed; beyond MOST_WAITING the state is, so that it does not grow for ever.
_waiting: dict[str, int] = {}
MOST_WAITING = 256
# What set_rng_state has for devices from which nothing has been drawn here.
_restored: dict[str, bytes] = {}
# That of manual_seed; None is start_seed().
_seed: int | None = None
# How many orders have had a seed of `order_seed` since.
_orders = 0


def _state_bytes(device: str) -> bytes:
    """The 16 bytes of the state of a device, by name, from which nothing has been drawn: 0 words, and its key from
    the seed. What all ranks draw alike has the seed of rank 0, which tells the others: every rank calls this then.
    """
    kind, of_ranks, _ = device.partition(OF_RANK)
    seed = _seed_of_rank_0() if of_ranks else current_seed()
    low = int.from_bytes(hashlib.sha256(int(kind.partition(":")[2] or 0).to_bytes(4, "big")).digest(), "big")
    return (0).to_bytes(8, "little") + ((seed & 0xFFFFFFFF) << 32 | low & 0xFFFFFFFF).to_bytes(8, "little")


def _seed_of_rank_0() -> int:
    """Return the 32 bits of rank 0's seed that count. A collective: ranks may have had other seeds by manual_seed."""
    import numpy as np

    from tinygraft.collectives.engines import world

    return int(world().broadcast(np.array([current_seed() & 0xFFFFFFFF]))[0])


def manual_seed(seed: int = 0) -> None:
    """Start all random numbers of all devices anew from seed, an int of which 32 bits count.

    On ranks (nn.parallel) each has its own: ranks that give the same seed draw the same. What is drawn on a Mesh is of
    rank 0's seed; once something was drawn there every rank calls manual_seed, or none. Raises DTypeError for what is
    no integer.

    >>> from tinygraft import Tensor
    >>> Tensor.manual_seed(1)
    >>> first = Tensor.rand(3).tolist()
    >>> Tensor.manual_seed(1)
    >>> Tensor.rand(3).tolist() == first
    True
    """
    global _seed, _orders
    seed = size_math.as_integer(seed, "manual_seed", "its seed")
    with exclusive:
        _seed, _orders = seed, 0
        _restored.clear()
        for device, state in list(_states.items()):
            try:
                # a write as any other: captured draws see it, and what was drawn before stays, computed or not
                rebind(state, bytes_node(_state_bytes(device), (2,), state.device, dtypes.uint64))
                state.realize()
            except DeviceError:  # the device is lost or gone, and its state with it: a draw there says so
                del _states[device]
            _waiting[device] = 0


def rng_state() -> dict[str, Any]:
    """The seed, and how much has been drawn on each device: {"seed": 3, "devices": {"CPU": [words, key]}}.

    >>> from tinygraft import Tensor
    >>> saved = rng_state()
    >>> first = Tensor.rand(3).tolist()
    >>> set_rng_state(saved)
    >>> Tensor.rand(3).tolist() == first
    True
    """
    with exclusive:
        return {"seed": current_seed(), "devices": {device: state.tolist() for device, state in _states.items()}}


def set_rng_state(saved: dict[str, Any]) -> None:
    """Go on with the random numbers of `rng_state`. A device that it does not name starts anew from its seed.

    Raises FileFormatError for what is no such state; nothing is changed then.
    """
    seed, devices = (saved.get("seed"), saved.get("devices")) if isinstance(saved, dict) else (None, None)
    pairs = list(devices.values()) if isinstance(devices, dict) else [None]
    words = [each for pair in pairs for each in (pair if isinstance(pair, list) and len(pair) == 2 else [None])]
    if type(seed) is not int or not all(type(each) is int and 0 <= each < 1 << 64 for each in words):
        raise FileFormatError(f"a state of random numbers has a seed and two words for each device, got {saved!r}")
    manual_seed(saved["seed"])
    with exclusive:
        for device, (drawn, key) in saved["devices"].items():
            data = drawn.to_bytes(8, "little") + key.to_bytes(8, "little")
            if device in _states:
                rebind(_states[device], bytes_node(data, (2,), _states[device].device, dtypes.uint64))
                _states[device].realize()
            else:
                _restored[device] = data


def current_seed() -> int:
    """Return the seed of manual_seed, or the one that was chosen at the start."""
    return start_seed() if _seed is None else _seed


def order_seed() -> int:
    """Return a seed for an order that has none of its own, another one each time: the first is `current_seed`.

    They begin anew with manual_seed, and draw nothing.
    """
    global _orders
    with exclusive:
        number, _orders = _orders, _orders + 1
    # given: 2**64 divided by the golden ratio, of which multiples are far apart
    return (current_seed() + number * 0x9E3779B97F4A7C15) % 2**63 if number else current_seed()


@contextmanager
def own_draws(seed: int) -> Iterator[None]:
    """Draw from `seed` in the block, on every device, and go on behind it as if nothing had been drawn.

    Tensors that were drawn in the block keep their numbers, also where they are computed later.
    """
    global _seed, _states, _waiting, _restored, _orders
    outside = _seed, _states, _waiting, _restored, _orders
    _seed, _states, _waiting, _restored, _orders = seed, {}, {}, {}, 0
    try:
        yield
    finally:
        _seed, _states, _waiting, _restored, _orders = outside


def _source_of(devices: Place) -> tuple[str, str]:
    """Return under which name random numbers for a device or several are drawn, and on which device of this process.

    Ranks draw those of rank 0's device, under a name that no device of a process has: what one rank draws for itself
    does not shift the numbers that all of them have alike.
    """
    if not isinstance(devices, tuple):
        return devices, devices
    name = devices[0] if own_rank(devices) is None else f"{devices[0].partition(OF_RANK)[0]}{OF_RANK}0"
    return name, local_devices(devices)[0]


def _draw(cls: type[Tensor], words: int, devices: Place) -> tuple[Tensor, Tensor]:
    """The number of words drawn before, and the key, each a uint64 of shape (1,); `words` more count as drawn.

    On several devices it is the first one's numbers that are drawn, so that they are those of one device.
    """
    name, device = _source_of(devices)
    state = _states.get(name)
    if state is None:
        start = _restored.pop(name, None) or _state_bytes(name)
        state = _states[name] = cls._from(bytes_node(start, (2,), device, dtypes.uint64), False)
    if not isinstance(devices, tuple) and (drawn := draw_now(state, words)) is not None:
        before = cls._from(bytes_node(drawn, (2,), device, dtypes.uint64), False)
        return sliced(before, 0, 0, 1), sliced(before, 0, 1, 2)
    step = cls.full((1,), words, device=device, dtype=dtypes.uint64)._move(Ops.PAD, ((0, 1),))
    waiting = 0 if memory_base(state.uop).op is Ops.BUFFER else _waiting.get(name, 0) + 1
    if waiting >= MOST_WAITING:
        state.realize()
        waiting = 0
    _waiting[name] = waiting
    rebind(state, state._op(Ops.ADD, step).uop)
    note_graph(state)
    now = cls._from(laid(state.uop, devices, None), False)
    return sliced(now, 0, 0, 1)._op(Ops.SUB, words), sliced(now, 0, 1, 2)


def random_bits(cls: type[Tensor], key: TensorBase, counter: TensorBase, num: int) -> Tensor:
    """num random uint32, of shape (num,), for a key and a counter.

    Each of these is a uint64 of shape (1,), or its two uint32, the low one first. The key and counter give a new key;
    words i and i + ceil(num / 2) are what it gives for the counter (i, i + ceil(num / 2)). Nothing counts as drawn.
    Raises DTypeError for another key or counter.
    """
    return _words_of(cls, _word("counter", counter)._op(Ops.THREEFRY, _word("key", key)), num)


def _words_of(cls: type[Tensor], key: TensorBase, num: int) -> Tensor:
    """Return num random uint32: words i and i + ceil(num / 2) are what `key` gives for the counter of both.

    `key` is a uint64 of shape (1,).
    """
    half = -(-num // 2)
    counters, shifts = (cls._from(node, False) for node in _constants(cls, half, key.device))
    pairs = reshaped(counters._op(Ops.THREEFRY, key), (1, half))
    return sliced(reshaped(pairs._op(Ops.SHR, shifts)._cast(dtypes.uint32), (2 * half,)), 0, 0, num)


@lru_cache(maxsize=64)
def _constants(cls: type[Tensor], half: int, device: Place) -> tuple[UOp, UOp]:
    """Return the counters of `half` pairs of words, and by how many bits each of a pair is shifted, as nodes.

    They read no memory, and are the same in every draw of so many words: making them took a third of its graph.
    """
    low = iota(cls, half, device)._cast(dtypes.uint64)
    counters = low._op(Ops.ADD, half)._op(Ops.SHL, 32)._op(Ops.OR, low)
    return counters.uop, reshaped(iota(cls, 2, device)._cast(dtypes.uint64)._op(Ops.MUL, 32), (2, 1)).uop


def _drawn_key(cls: type[Tensor], count: int, device: str) -> Tensor:
    """Return what the next draw of so many float32 is made of, a uint64 of shape (1,), and count them as drawn."""
    with exclusive:
        before, key = _draw(cls, count, device)
        found = cls._from(before._op(Ops.THREEFRY, key).uop, False)
    return found


def _as_units(self: Tensor, count: int) -> Tensor:
    """Return the `count` float32 from [0, 1) that a key of _drawn_key stands for, of shape (count,)."""
    return _units_of(_words_of(type(self), self, count), dtypes.float32)


def threefry(self: Tensor, seed: TensorBase) -> Tensor:
    """64 random bits, as a uint64, for each counter in this tensor and a key; both are uint64 and broadcast.

    Raises DTypeError for another dtype, ShapeError.
    """
    for tensor in (self, seed):
        if tensor.dtype is not dtypes.uint64:
            raise DTypeError(f"threefry needs uint64, got {tensor.dtype}\n  made at {tensor._where()}")
    return self._op(Ops.THREEFRY, seed)


def rand(
    cls: type[Tensor], *shape: Any, device: Place = None, dtype: DTypeLike | None = None, contiguous: bool = True,
    requires_grad: bool | None = None,
) -> Tensor:  # fmt: skip
    """Numbers from [0, 1), uniform, or complex numbers of such parts, in a shape: sizes one by one or as one sequence.

    The dtype is the default float, unless given. contiguous=False leaves them as an expression, which may be computed
    anew where it is used. Raises DTypeError for a dtype of integers, ShapeError for a size that is negative, symbolic
    or no integer, DeviceError.

    >>> from tinygraft import Tensor
    >>> Tensor.manual_seed(42)
    >>> [round(x, 4) for x in Tensor.rand(2).tolist()]
    [0.7549, 0.8611]
    """
    sizes = as_ints(as_sizes(shape, "a shape"), "rand")
    if any(size < 0 for size in sizes):
        raise ShapeError(f"a shape is made of sizes that are not negative, got {sizes}")
    to = to_dtype(dtype or dtypes.default_float)
    if to.kind == "complex":
        both = cls.rand((2, *sizes), device=device, dtype=part_of(to), contiguous=contiguous)
        return in_complex(cls, cls._in_parts().joined(both[0], both[1]), to, requires_grad)
    if to.kind != "float":
        raise DTypeChoiceError(f"rand gives floats, got {to}; randint gives integers")
    name, count = Device.canonicalize(device), math.prod(sizes)
    if count == 0:
        return cls.zeros(sizes, device=name, dtype=to, requires_grad=requires_grad)
    with exclusive:  # so that no other thread draws, or realises, while the graph of this draw is made
        unit = reshaped(_units(cls, count, to, name), sizes)
        return cls._from(UOp(Ops.CONTIGUOUS, to, (unit.uop,)) if contiguous else unit.uop, requires_grad)


def _units(cls: type[Tensor], count: int, to: DType, device: Place) -> Tensor:
    """`count` uniform numbers from [0, 1) of the float dtype `to`, drawn on a device.

    They are random bits as the mantissas of numbers from [1, 2), less 1.
    """
    words = -(-count * to.itemsize // 4)
    before, key = _draw(cls, words, device)
    bits = cls.random_bits(key, before, words)
    unsigned = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}[to.itemsize]
    if unsigned is not dtypes.uint32:
        bits = narrower(bits, unsigned) if to.itemsize < 4 else wider(bits, unsigned)
        bits = sliced(bits, 0, 0, count)
    return _units_of(bits, to)


def _units_of(bits: Tensor, to: DType) -> Tensor:
    """Return random bits, unsigned integers of the width of `to`, as the mantissas of floats from [1, 2), less 1."""
    mantissa = dtypes.finfo(to)[1]
    return bits_as(bits._op(Ops.SHR, to.bits - mantissa)._op(Ops.OR, bits_of(1.0, to)), to)._op(Ops.SUB, 1)


def rand_like(self: Tensor, **kwargs: Any) -> Tensor:
    """rand with the shape, device and dtype of this tensor, sharded as it is, unless keywords, those of rand, differ.

    Raises DTypeError for integers without a dtype.
    """
    return laid_as(self, type(self).rand(self.shape, **like_options(self, kwargs)))


def randn(
    cls: type[Tensor],
    *shape: Any,
    device: Place = None,
    dtype: DTypeLike | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """Numbers from the normal distribution with mean 0 and standard deviation 1, by Box and Muller.

    The parts of complex numbers have half of the variance each. Sizes, keywords and errors are as in rand.

    >>> from tinygraft import Tensor
    >>> Tensor.manual_seed(42)
    >>> [round(x, 4) for x in Tensor.randn(2).tolist()]
    [-1.6598, -0.5115]
    """
    sizes = as_ints(as_sizes(shape, "a shape"), "randn")
    to = to_dtype(dtype or dtypes.default_float)
    if to.kind == "complex":
        parts = cls.randn((2, *sizes), device=device, dtype=part_of(to))._op(Ops.MUL, math.sqrt(0.5))
        return in_complex(cls, cls._in_parts().joined(parts[0], parts[1]), to, requires_grad)
    if to.kind != "float":
        raise DTypeChoiceError(f"randn gives floats, got {to}")
    both = cls.rand((2, *sizes), device=device, dtype=dtypes.float32)
    angle, radius = (reshaped(part, sizes) for part in (sliced(both, 0, 0, 1), sliced(both, 0, 1, 2)))
    turn = angle._op(Ops.MUL, 2 * math.pi)
    cosine = turn._const(math.pi / 2)._op(Ops.SUB, turn)._op(Ops.SIN)
    rest = radius._const(1)._op(Ops.SUB, radius)
    length = rest._op(Ops.LOG2)._op(Ops.MUL, math.log(2))._op(Ops.MUL, -2)._op(Ops.SQRT)
    return cls._from(cosine._op(Ops.MUL, length)._cast(to).uop, requires_grad)


def randn_like(self: Tensor, dtype: DTypeLike | None = None, **kwargs: Any) -> Tensor:
    """randn with the shape, device and dtype of this tensor, sharded as it is, unless arguments differ.

    Raises DTypeError for integers without a dtype.
    """
    return laid_as(self, type(self).randn(self.shape, **like_options(self, {"dtype": dtype, **kwargs})))


def normal(cls: type[Tensor], *shape: Any, mean: float = 0.0, std: float = 1.0, requires_grad: bool | None = None,
           **kwargs: Any) -> Tensor:  # fmt: skip
    """Numbers from the normal distribution with this mean and standard deviation, numbers both.

    Sizes and keywords are those of randn. Raises ValueError for a standard deviation below 0, and as rand does.

    >>> from tinygraft import Tensor
    >>> Tensor.manual_seed(42)
    >>> [round(x, 4) for x in Tensor.normal(2, mean=10, std=2).tolist()]
    [6.6804, 8.9769]
    """
    if len(shape) == 3 and isinstance(shape[-1], (tuple, list)):  # PyTorch's order: (mean, std, size)
        raise ShapeError(
            f"normal takes the shape first and the numbers by name, got {', '.join(map(repr, shape))}\n"
            f"  hint: Tensor.normal({', '.join(map(str, shape[-1]))}, mean={shape[0]}, std={shape[1]})"
        )
    if isinstance(std, (int, float)) and not std >= 0:
        raise ValueError(f"normal needs a std of at least 0, got {std}")
    scaled = cls.randn(*shape, **kwargs)._op(Ops.MUL, std)._op(Ops.ADD, mean)
    return cls._from(scaled.uop, requires_grad)


def uniform(
    cls: type[Tensor], *shape: Any, low: float = 0.0, high: float = 1.0, dtype: DTypeLike | None = None,
    requires_grad: bool | None = None, **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Numbers from [low, high), uniform; cast when the dtype is no float. Sizes and keywords are those of rand.

    Integer bounds with an integer dtype give each integer from low to high - 1. Raises ValueError where low is above
    high, NumberOutOfRange for bounds that a dtype of integers does not hold, and as rand does.

    >>> from tinygraft import Tensor
    >>> Tensor.uniform(2, 3, low=-1.0, high=1.0).shape
    (2, 3)
    """
    to = to_dtype(dtype or dtypes.default_float)
    low, high = as_number(low, "uniform", "low"), as_number(high, "uniform", "high")
    if all(isinstance(bound, (int, float)) for bound in (low, high)) and not low <= high:
        raise ValueError(f"uniform needs a low that is not above high, got low={low} and high={high}")
    unit = cls.rand(*shape, dtype=to if to.kind == "float" else dtypes.default_float, **kwargs)
    scaled = unit._op(Ops.MUL, high - low)
    if to.kind in ("int", "uint") and isinstance(low, int) and isinstance(high, int) and low < high:
        check(low, to)
        check(high - 1, to)
        # the distance may be more than the dtype holds; what is added to it wraps to where it fits
        wide = fitting(to, [high - low - 1])
        return cls._from(scaled._cast(wide)._op(Ops.ADD, coerce(low, wide))._cast(to).uop, requires_grad)
    if all(isinstance(bound, (int, float)) for bound in (low, high)):
        check(low, to)
        check(math.nextafter(high, low), to)
    return cls._from(scaled._cast(to)._op(Ops.ADD, low)._cast(to).uop, requires_grad)


def randint(
    cls: type[Tensor], *shape: Any, low: int = 0, high: int = 10, dtype: DTypeLike = dtypes.int32, **kwargs: Any
) -> Tensor:
    """Integers from low to high - 1, ints both, in a shape: sizes one by one or as one sequence; 0 to 9 unless given.

    Keywords are those of rand. Raises DTypeError for a dtype or a bound of no integers, ValueError if there are none,
    NumberOutOfRange for bounds that the dtype does not hold, and as rand does.

    >>> from tinygraft import Tensor
    >>> Tensor.manual_seed(42)
    >>> Tensor.randint(2, 3, low=5, high=10).tolist()
    [[6, 5, 5], [5, 7, 6]]
    """
    to = to_dtype(dtype)
    if to.kind not in ("int", "uint"):
        raise DTypeChoiceError(f"randint gives integers, got {to}")
    if len(shape) > 1 and isinstance(shape[-1], (tuple, list)):  # PyTorch's order: (low, high, size) or (high, size)
        bounds = f"low={shape[0]}, high={shape[1]}" if len(shape) > 2 else f"low=0, high={shape[0]}"
        sizes = ", ".join(map(str, shape[-1]))
        raise ShapeError(
            f"randint takes the shape first and the bounds by name, got {', '.join(map(repr, shape))}\n"
            f"  hint: Tensor.randint({sizes}, {bounds})"
        )
    if not all(isinstance(bound, int) for bound in (low, high)):
        raise DTypeError(f"randint needs integers as bounds, got low={low!r} and high={high!r}")
    if high <= low:
        raise ValueError(f"randint gives integers from low to high - 1, got low={low} and high={high}: there are none")
    return cls.uniform(*shape, low=low, high=high, dtype=to, **kwargs)


def randperm(cls: type[Tensor], n: int, device: Place = None, dtype: DTypeLike = dtypes.int32, **kwargs: Any) -> Tensor:
    """The numbers 0 to n - 1 in random order, int32 unless given.

    Raises NumberOutOfRange for a dtype that does not hold them. ShapeError is raised for a negative n. Keywords are
    those of rand.
    """
    n = size_math.as_integer(n, "randperm", "n")
    check(max(n - 1, 0), to_dtype(dtype))
    return cls.rand(n, device=device, **kwargs).argsort()._cast(dtype)


# First values of weights


def scaled_uniform(cls: type[Tensor], *shape: Any, **kwargs: Any) -> Tensor:
    """Uniform from [-1, 1) divided by the square root of the number of elements.

    Sizes and keywords are those of rand. Raises ShapeError without an axis, and as rand does.
    """
    sizes = _initial(shape)
    return _scaled(cls, sizes, 1 / math.sqrt(max(math.prod(sizes), 1)), kwargs)


def glorot_uniform(cls: type[Tensor], *shape: Any, **kwargs: Any) -> Tensor:
    """Uniform within sqrt(6 / (fan_in + fan_out)) of 0 (Glorot and Bengio, AISTATS 2010).

    The first axis is the output; all others together are the input. Sizes and keywords are those of rand. Raises
    ShapeError without an axis, and as rand does.
    """
    sizes = _initial(shape)
    bound = math.sqrt(6 / max(sizes[0] + math.prod(sizes[1:]), 1))
    return _scaled(cls, sizes, bound, kwargs)


def kaiming_uniform(cls: type[Tensor], *shape: Any, a: float = 0.01, **kwargs: Any) -> Tensor:
    """Uniform within sqrt(3) * gain / sqrt(fan_in) of 0, where gain = sqrt(2 / (1 + a**2)).

    fan_in is the product of all sizes but the first. Sizes and keywords are those of rand. Raises ShapeError without an
    axis, and as rand does. Source: He et al., "Delving deep into rectifiers", arXiv:1502.01852.
    """
    sizes = _initial(shape)
    bound = math.sqrt(3.0) * _gain(a) / math.sqrt(max(math.prod(sizes[1:]), 1))
    return cls.uniform(sizes, low=-bound, high=bound, **kwargs)


def kaiming_normal(cls: type[Tensor], *shape: Any, a: float = 0.01, **kwargs: Any) -> Tensor:
    """Normal with standard deviation gain / sqrt(fan_in), where gain = sqrt(2 / (1 + a**2)).

    fan_in is the product of all sizes but the first. Sizes and keywords are those of rand. Raises ShapeError without an
    axis, and as rand does. Source: He et al., "Delving deep into rectifiers", arXiv:1502.01852.
    """
    sizes = _initial(shape)
    return cls.normal(sizes, mean=0.0, std=_gain(a) / math.sqrt(max(math.prod(sizes[1:]), 1)), **kwargs)


def _scaled(cls: type[Tensor], sizes: tuple[int, ...], bound: float, kwargs: dict[str, Any]) -> Tensor:
    """Return numbers from [-bound, bound), uniform, in the shape `sizes`; `kwargs` are the keywords of rand."""
    flag = kwargs.pop("requires_grad", None)
    unit = cls.uniform(sizes, low=-1.0, high=1.0, **kwargs)
    return cls._from(unit._op(Ops.MUL, bound).uop, flag)


# Random choices


def multinomial(self: Tensor, num_samples: int = 1, replacement: bool = False) -> Tensor:
    """Indices drawn with these weights, along the last axis of one or two: (num_samples,), or (rows, num_samples).

    Weights need not sum to 1. Without replacement no index is drawn twice. Indices are int32, or int64 with
    DEFAULT_INT=int64. Raises ShapeError for other axes, less than one sample, and when no replacement needs too many,
    and ValueError where weights in memory (with CHECK_INDEX=1 all) are negative, NaN, infinite or too few above 0; a
    row of weights still to be computed gives its length then, which is no index.

    >>> from tinygraft import Tensor
    >>> Tensor.manual_seed(42)
    >>> Tensor([1, 2, 3, 4]).multinomial(5, replacement=True).tolist()
    [2, 0, 1, 1, 2]
    """
    num_samples = size_math.as_integer(num_samples, "multinomial", "num_samples")
    if not 1 <= self.ndim <= 2 or num_samples < 1:
        raise ShapeError(f"multinomial needs one or two axes and at least 1 sample, got {self.shape} and {num_samples}")
    count = size_math.as_int(self.shape[-1], "multinomial")
    if not replacement and num_samples > count:
        raise ShapeError(f"cannot draw {num_samples} of {count} without replacement")
    index_checks.weights(self, 1 if replacement else num_samples)
    weight = (self.unsqueeze(0) if self.ndim == 1 else self)._cast(dtypes.float32)
    rows = weight.shape[0]
    if replacement or num_samples == 1:
        sums = weight._move(Ops.SCAN, ScanArg(Ops.ADD, 1))
        share = sums._op(Ops.FDIV, sliced(sums, 1, count - 1, count))
        drawn = type(self).rand(num_samples, rows, 1, device=self.device, dtype=dtypes.float32)
        below = share._op(Ops.CMPLT, drawn)._op(Ops.OR, share._op(Ops.CMPEQ, drawn))
        found = below._cast(dtypes.int32)._reduce(Ops.ADD, 2).permute(1, 0)
    else:
        drawn = type(self).rand(weight.shape, device=self.device, dtype=dtypes.float32)
        order = drawn._op(Ops.LOG2)._op(Ops.MUL, -math.log(2))._op(Ops.FDIV, weight).argsort()
        found = sliced(order, 1, 0, num_samples)
    total, least = weight._reduce(Ops.ADD, 1, True), weight._reduce(Ops.MIN, 1, True)
    real = total._const(0.0)._op(Ops.CMPLT, total)._op(Ops.AND, total._op(Ops.CMPLT, math.inf))
    real = real._op(Ops.AND, least._op(Ops.CMPLT, 0.0)._op(Ops.NOT))
    found = as_positions(real._op(Ops.WHERE, found._cast(dtypes.int32), count))
    name_cut(found.uop, "multinomial")
    return found if self.ndim == 2 else reshaped(found, (num_samples,))


def _initial(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape of a weight from its sizes, one by one or as one sequence. Raises ShapeError where it has no axis."""
    sizes: Shape = as_ints(as_sizes(shape, "a shape"), "a weight")
    if not sizes:
        raise ShapeError("a weight has at least one axis, got shape ()")
    return sizes


def _gain(a: float) -> float:
    """Return the gain of a leaky ReLU with the slope `a` below 0: sqrt(2 / (1 + a**2))."""
    return math.sqrt(2.0 / (1 + a**2))


def _word(what: str, given: TensorBase) -> TensorBase:
    """A uint64, also from its two uint32. Raises DTypeError for anything else."""
    if given.dtype is dtypes.uint64 and given.shape == (1,):
        return given
    if given.dtype is not dtypes.uint32 or given.shape != (2,):
        raise DTypeError(
            f"the {what} of random_bits is one uint64 or two uint32, got shape {given.shape} of {given.dtype}\n"
            f"  made at {given._where()}"
        )
    wide: Any = given._cast(dtypes.uint64)
    low, high = sliced(wide, 0, 0, 1), sliced(wide, 0, 1, 2)
    both: TensorBase = high._op(Ops.SHL, 32)._op(Ops.OR, low)
    return both
