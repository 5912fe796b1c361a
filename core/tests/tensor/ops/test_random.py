"""Random numbers: the generator against its definition, the distributions, and how draws follow each other."""

from __future__ import annotations

import gc
import hashlib
import math
import threading

import numpy as np
import pytest

from graph_numpy import evaluate
from tinygraft import Context, GlobalCounters, Tensor, TinyJit, dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.uop.uop import live_nodes, toposort


def threefry(counter: tuple[int, int], key: tuple[int, int]) -> tuple[int, int]:
    """Threefry 2x32 with 20 rounds, as the paper writes it: five groups of four rounds, a key injected after each."""
    mask, (x0, x1) = 0xFFFFFFFF, counter
    keys = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    x0, x1 = (x0 + keys[0]) & mask, (x1 + keys[1]) & mask
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x0 = (x0 + x1) & mask
            x1 = ((x1 << turn | x1 >> (32 - turn)) & mask) ^ x0
        x0 = (x0 + keys[(group + 1) % 3]) & mask
        x1 = (x1 + keys[(group + 2) % 3] + group + 1) & mask
    return x0, x1


def words(seed: int, drawn: int, n: int, ordinal: int = 0) -> list[int]:
    """n random words after `drawn` others, by the definition of a draw."""
    digest = hashlib.sha256(ordinal.to_bytes(4, "big")).digest()
    key = threefry((drawn & 0xFFFFFFFF, drawn >> 32), (int.from_bytes(digest[-4:], "big"), seed))
    half = -(-n // 2)
    pairs = [threefry((i, i + half), key) for i in range(half)]
    return ([a for a, _ in pairs] + [b for _, b in pairs])[:n]


def test_the_definition_used_here_is_threefry() -> None:
    """The reference gives the known answers of the paper's test vectors (Random123, threefry2x32 20)."""
    assert threefry((0, 0), (0, 0)) == (0x6B200159, 0x99BA4EFE)
    assert threefry((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2) == (0x1CB996FC, 0xBB002BE7)
    assert threefry((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344)) == (0xC4923A9C, 0x483DF7A0)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 97])
def test_rand_follows_the_definition(n: int) -> None:
    """Each draw of float32 has exactly the words of the definition, one draw after another."""
    Tensor.manual_seed(1234)
    drawn = 0
    for count in (n, 5, n):
        expected = np.array(words(1234, drawn, count), np.uint32)
        units = (expected >> 9 | 0x3F800000).view(np.float32) - np.float32(1)
        np.testing.assert_array_equal(Tensor.rand(count).numpy(), units)
        drawn += count


@pytest.mark.parametrize("dtype", dtypes.floats)
def test_rand_of_every_float_dtype(dtype: object) -> None:
    """The words are read at the dtype's width, and its mantissa is filled from the top bits."""
    width, mantissa, one, kind = {
        dtypes.float16: (2, 10, 0x3C00, "<u2"),
        dtypes.bfloat16: (2, 7, 0x3F80, "<u2"),
        dtypes.float32: (4, 23, 0x3F800000, "<u4"),
        dtypes.float64: (8, 52, 0x3FF << 52, "<u8"),
    }[dtype]
    Tensor.manual_seed(9)
    count = 5
    raw = np.array(words(9, 0, -(-count * width // 4)), "<u4").view(kind)[:count]
    bits = (raw >> (width * 8 - mantissa)) | np.array(one, kind)
    if dtype is dtypes.bfloat16:
        expected = (bits.astype(np.uint32) << 16).view(np.float32) - np.float32(1)
    else:
        expected = bits.view(f"<f{width}") - np.array(1, f"<f{width}")
    found = Tensor.rand(count, dtype=dtype)
    assert found.dtype is dtype
    np.testing.assert_array_equal(found.numpy(), expected)


def test_the_seed_pages_come_out_digit_for_digit() -> None:
    """manual_seed(42) and normal(2, 3, mean=2.5, std=0.5) print what the seed page prints."""
    Tensor.manual_seed(42)
    with np.printoptions(precision=4):
        assert (
            str(Tensor.normal(2, 3, mean=2.5, std=0.5).numpy()) == "[[3.4788 2.407  3.3202]\n [2.1177 2.0653 2.2811]]"
        )


def test_devices_have_their_own_counters() -> None:
    """PYTHON and the default device draw the same numbers from the same seed, an ordinal of 1 others."""
    Tensor.manual_seed(5)
    first = [Tensor.rand(4, device=device).tolist() for device in ("PYTHON", None)]
    assert first[0] == first[1] or Tensor.rand(1).device == "PYTHON"
    other = Tensor.rand(4, device="PYTHON:1").numpy()
    expected = np.array(words(5, 0, 4, ordinal=1), np.uint32)
    np.testing.assert_array_equal(other, (expected >> 9 | 0x3F800000).view(np.float32) - np.float32(1))


def test_draws_that_are_computed_later_or_in_another_order_keep_their_numbers() -> None:
    """The numbers of a draw are decided when it is written, not when it is computed."""
    Tensor.manual_seed(3)
    expected = [Tensor.rand(3).tolist() for _ in range(4)]
    Tensor.manual_seed(3)
    lazy = [Tensor.rand(3) for _ in range(4)]
    assert lazy[2].tolist() == expected[2]
    assert lazy[0].tolist() == expected[0]
    lazy[3].realize(lazy[1])
    assert [t.tolist() for t in lazy] == expected
    Tensor.manual_seed(3)
    pending = Tensor.rand(3)
    Tensor.manual_seed(4)
    Tensor.rand(3).realize()
    assert pending.tolist() == expected[0]


def test_equal_draws_have_equal_graphs_and_compile_once() -> None:
    """A second draw of a shape runs at most three kernels and compiles none, whatever the seed and the counter."""
    Tensor.manual_seed(1)
    Tensor.rand(3, 5).realize()
    Tensor.manual_seed(2)
    Tensor.rand(7).realize()
    GlobalCounters.reset()
    Tensor.rand(3, 5).realize()
    assert GlobalCounters.kernels_compiled == 0
    assert GlobalCounters.kernel_count <= 3
    assert len(toposort(Tensor.rand(3, 5).uop)) < 70


def test_a_captured_function_draws_new_numbers() -> None:
    """Replays of a TinyJit move the counter on as the plain calls do, and follow a new seed."""

    @TinyJit
    def step(x: Tensor) -> Tensor:
        return (x + Tensor.rand(3)).realize()

    zero = Tensor.zeros(3).contiguous().realize()
    for _ in range(2):
        Tensor.manual_seed(7)
        expected = [Tensor.rand(3).tolist() for _ in range(6)]
        Tensor.manual_seed(7)
        assert [step(zero).tolist() for _ in range(6)] == expected


def test_randn_is_box_and_muller() -> None:
    """A normal draw is made from one uniform draw of twice the shape."""
    Tensor.manual_seed(11)
    units = Tensor.rand(2, 4, 3).numpy().astype(np.float64)
    Tensor.manual_seed(11)
    expected = np.cos(2 * np.pi * units[0]) * np.sqrt(-2 * np.log(1 - units[1]))
    np.testing.assert_allclose(Tensor.randn(4, 3).numpy(), expected, rtol=1e-4, atol=1e-5)
    assert Tensor.randn(3, dtype=dtypes.half).dtype is dtypes.half


def test_distributions_have_their_moments() -> None:
    """Mean, spread and bounds of many numbers are those of the distribution."""
    Tensor.manual_seed(0)
    n = 20000
    unit, normal = Tensor.rand(n).numpy(), Tensor.normal(n, mean=3, std=2).numpy()
    assert unit.min() >= 0 and unit.max() < 1
    assert abs(unit.mean() - 0.5) < 0.01 and abs(unit.var() - 1 / 12) < 0.003
    assert abs(normal.mean() - 3) < 0.06 and abs(normal.std() - 2) < 0.05
    low_high = Tensor.uniform(n, low=-2, high=6).numpy()
    assert low_high.min() >= -2 and low_high.max() < 6 and abs(low_high.mean() - 2) < 0.1
    dice = np.bincount(Tensor.randint(n, low=1, high=7).numpy(), minlength=7)
    assert dice[0] == 0 and dice[1:].sum() == n and abs(dice[1:] - n / 6).max() < 6 * math.sqrt(n / 6)


def test_integers_are_scaled_uniforms() -> None:
    """randint is floor of low + (high - low) * rand, in the integer dtype asked for."""
    Tensor.manual_seed(8)
    unit = Tensor.rand(50).numpy()
    Tensor.manual_seed(8)
    found = Tensor.randint(50, low=5, high=10, dtype=dtypes.int64)
    assert found.dtype is dtypes.int64
    np.testing.assert_array_equal(found.numpy(), 5 + (np.float32(5) * unit).astype(np.int64))


def test_first_values_of_weights_keep_their_bounds() -> None:
    """Each initialiser has the bound or the spread of its formula."""
    Tensor.manual_seed(0)
    shape, inputs = (64, 8, 4), 32
    gain = math.sqrt(2 / (1 + 0.01**2))
    for made, bound in (
        (Tensor.scaled_uniform(shape), 1 / math.sqrt(64 * 32)),
        (Tensor.glorot_uniform(shape), math.sqrt(6 / (64 + inputs))),
        (Tensor.kaiming_uniform(shape), math.sqrt(3) * gain / math.sqrt(inputs)),
    ):
        x = made.numpy()
        assert x.shape == shape
        assert 0.95 * bound < abs(x).max() <= bound * (1 + 1e-6)
    assert abs(Tensor.kaiming_normal(shape).numpy().std() - gain / math.sqrt(inputs)) < 0.01
    with pytest.raises(ShapeError, match=r"a weight has at least one axis, got shape \(\)"):
        Tensor.kaiming_uniform()


def test_randperm_is_a_permutation() -> None:
    """Every number below n comes once; it is the order of one draw."""
    Tensor.manual_seed(6)
    unit = Tensor.rand(40).numpy()
    Tensor.manual_seed(6)
    found = Tensor.randperm(40)
    assert found.dtype is dtypes.int32
    np.testing.assert_array_equal(found.numpy(), np.argsort(unit, kind="stable"))


def test_multinomial_follows_the_weights() -> None:
    """Indices come as often as their weights say; without replacement none comes twice; rows have their own."""
    Tensor.manual_seed(0)
    found = Tensor([1.0, 2.0, 0.0, 5.0]).multinomial(4000, replacement=True)
    counts = np.bincount(found.numpy(), minlength=4)
    assert found.dtype is dtypes.int32
    np.testing.assert_allclose(counts / 4000, [1 / 8, 2 / 8, 0, 5 / 8], atol=0.03)
    rows = Tensor([[1.0, 1.0, 1.0], [0.5, 0.0, 2.0]]).multinomial(2)
    assert rows.shape == (2, 2)
    assert all(len(set(row)) == 2 for row in rows.tolist())
    assert set(rows[1].tolist()) == {0, 2}
    with pytest.raises(ShapeError, match="cannot draw 4 of 3 without replacement"):
        Tensor([1.0, 1.0, 1.0]).multinomial(4)
    with pytest.raises(ShapeError, match="multinomial needs one or two axes and at least 1 sample"):
        Tensor(1.0).multinomial()


def test_dropout_drops_in_training_only() -> None:
    """Outside of training nothing happens; inside, kept elements are scaled and the share of zeros is p."""
    x = Tensor.ones(100, 100)
    assert x.dropout(0.5).uop is x.uop
    with Tensor.train():
        assert x.dropout(0).uop is x.uop
        np.testing.assert_array_equal(x.dropout(1.0).numpy(), np.zeros((100, 100)))
        Tensor.manual_seed(1)
        found = x.dropout(0.2).numpy()
        Tensor.manual_seed(1)
        kept = Tensor.rand(100, 100).numpy() >= np.float32(0.2)
    np.testing.assert_allclose(found, np.where(kept, 1.25, 0), rtol=1e-6)
    with pytest.raises(ValueError, match="dropout needs a probability from 0 to 1, got 1.5"):
        x.dropout(1.5)


def test_training_mode_is_one_state_with_three_names() -> None:
    """Tensor.train, Tensor.training and Context(TRAINING=1) change and show the same thing."""
    assert Tensor.training is False
    with Tensor.train():
        assert Tensor.training is True
        with Tensor.test():
            assert Tensor.training is False
        with Tensor.train(False):
            assert Tensor.training is False
    with Context(TRAINING=1):
        assert Tensor.training is True

    @Tensor.train()
    def inside() -> bool:
        return Tensor.training

    assert inside() is True
    assert Tensor.training is False
    Tensor.training = True
    assert Tensor.training is True
    Tensor.training = False


def test_random_errors_name_what_was_asked() -> None:
    """Dtypes and bounds that make no sense raise."""
    with pytest.raises(DTypeError, match="rand gives floats, got dtypes.int; randint gives integers"):
        Tensor.rand(2, dtype=dtypes.int32)
    with pytest.raises(DTypeError, match="randn gives floats, got dtypes.int"):
        Tensor.randn(2, dtype=dtypes.int32)
    with pytest.raises(DTypeError, match="randint gives integers, got dtypes.float"):
        Tensor.randint(2, dtype=dtypes.float32)
    with pytest.raises(DTypeError, match="randint needs integers as bounds, got low=0.5 and high=10"):
        Tensor.randint(2, low=0.5)
    with pytest.raises(ShapeError, match=r"a shape is made of sizes that are not negative, got \(-1,\)"):
        Tensor.rand(-1)
    with pytest.raises(DTypeError, match="threefry needs uint64, got dtypes.int"):
        Tensor([1]).threefry(Tensor([1], dtype="uint64"))


def test_shapes_without_elements_draw_nothing() -> None:
    """rand of an empty shape leaves the counter where it is."""
    Tensor.manual_seed(2)
    expected = Tensor.rand(2).tolist()
    Tensor.manual_seed(2)
    assert Tensor.rand(0, 3).shape == (0, 3)
    assert Tensor.randn(0).tolist() == []
    assert Tensor.rand(2).tolist() == expected
    assert Tensor.rand().shape == ()


def test_threefry_is_an_op() -> None:
    """Tensor.threefry gives the definition's words, low word first."""
    counter, key = Tensor([5 << 32 | 3], dtype="uint64"), Tensor([2 << 32 | 9], dtype="uint64")
    low, high = threefry((3, 5), (9, 2))
    assert counter.threefry(key).tolist() == [high << 32 | low]
    assert evaluate(counter.threefry(key).uop).tolist() == [high << 32 | low]


def test_threads_draw_different_numbers() -> None:
    """Draws of eight threads are those of one thread, in some order: none comes twice."""
    Tensor.manual_seed(21)
    expected = sorted(Tensor.rand(4).tolist() for _ in range(24))
    Tensor.manual_seed(21)
    found: list[list[float]] = []

    def draw() -> None:
        for _ in range(3):
            found.append(Tensor.rand(4).tolist())

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == expected


@pytest.mark.parametrize(("low", "high"), [(5, 5), (5, 2)])
def test_randint_of_an_empty_range(low: int, high: int) -> None:
    """No integer lies in it, so none is given."""
    with pytest.raises(ValueError, match=f"got low={low} and high={high}: there are none"):
        Tensor.randint(3, low=low, high=high)


def test_draws_that_nobody_computes_do_not_pile_up() -> None:
    """However many draws are dropped, the graph of the state stays small, and the numbers go on as they should."""
    Tensor.manual_seed(13)
    first = Tensor.rand(2)
    for _ in range(700):
        last = Tensor.rand(2)
    assert len(toposort(last.uop)) < 5 * 256
    expected = np.array([words(13, drawn, 2) for drawn in (0, 1400)], np.uint32)
    units = (expected >> 9 | 0x3F800000).view(np.float32) - np.float32(1)
    np.testing.assert_array_equal(np.stack([first.numpy(), last.numpy()]), units)


def test_many_draws_keep_memory_and_nodes_flat() -> None:
    """A hundred draws, computed or not, leave as many live nodes and bytes as twenty."""
    counts = []
    for i in range(100):
        (Tensor.rand(3) + Tensor.randn(3)).realize()
        if i in (20, 99):
            gc.collect()
            counts.append((live_nodes(), GlobalCounters.mem_used))
    assert counts[0] == counts[1]
