"""Indices that lie outside: raised where they are known or with CHECK_INDEX=1, and never a step outside of memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, nn, vmap
from tinygraft.config import Context
from tinygraft.errors import DTypeError, IndexOutOfRange, ShapeError
from tinygraft.uop.ops import Ops

READS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "t[i]": lambda t, i: t[i],
    "t[:, i]": lambda t, i: t[:, i],
    "t[i, i]": lambda t, i: t[i, i],
    "t[0, i]": lambda t, i: t[0, i],
    "t[None, ..., i]": lambda t, i: t[None, ..., i],
    "gather": lambda t, i: t.gather(0, i.reshape(-1, 1)),
    "gather along the last axis": lambda t, i: t.gather(1, i.reshape(1, -1)),
    "take": lambda t, i: t.take(i),
    "take_along_dim": lambda t, i: t.take_along_dim(i.reshape(-1, 1), 0),
    "index_select": lambda t, i: t.index_select(1, i),
    "Embedding": lambda t, i: _embedding(t)(i),
}
WRITES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "t[i] = 0": lambda t, i: _stored(t, i),
    "t[:, i] = 0": lambda t, i: _stored(t, (slice(None), i)),
    "t[i, i] = 0": lambda t, i: _stored(t, (i, i)),
    "scatter": lambda t, i: t.scatter(0, i.reshape(-1, 1), 9.0),
    "scatter_add": lambda t, i: t.scatter_add(0, i.reshape(-1, 1), i.reshape(-1, 1).float()),
    "scatter_reduce": lambda t, i: t.scatter_reduce(0, i.reshape(-1, 1), i.reshape(-1, 1).float(), "amax"),
    "index_add": lambda t, i: t.index_add(1, i, Tensor.ones(3, i.shape[0])),
    "index_copy": lambda t, i: t.index_copy(1, i, Tensor.ones(3, i.shape[0])),
    "index_fill": lambda t, i: t.index_fill(0, i, 9.0),
    "index_reduce": lambda t, i: t.index_reduce(0, i, Tensor.ones(i.shape[0], 4), "prod"),
    "index_put": lambda t, i: t.index_put((i,), Tensor([9.0])),
    "put": lambda t, i: t.put(i, i.float()),
}
ALL = READS | WRITES
HOSTILE = {
    "int8": [12, -13, 127, -128], "int16": [12, -13, 32767, -32768], "int32": [12, -13, 2**31 - 1, -(2**31)],
    "int64": [12, -13, 2**31, 2**32, -(2**32), 2**63 - 1, -(2**63), 2**62 + 1], "uint8": [12, 255],
    "uint32": [12, 2**31, 2**32 - 1], "uint64": [12, 2**32, 2**63, 2**64 - 1],
}  # fmt: skip


def _embedding(weight: Tensor) -> nn.Embedding:
    layer = nn.Embedding(*weight.shape)
    layer.weight = weight
    return layer


def _stored(t: Tensor, index: Any) -> Tensor:
    new = t.clone()
    new[index] = 0
    return new


def numbers() -> Tensor:
    """A table of three rows and four columns."""
    return Tensor(np.arange(1.0, 13.0, dtype=np.float32).reshape(3, 4))


@pytest.mark.parametrize("name", ALL)
def test_the_checked_mode_raises_wherever_an_index_is_used(name: str) -> None:
    """The value, its place, the axis, the shape and both lines are in the sentence; good indices pass."""
    good, bad = Tensor([2, -3, 0]), Tensor([1, -13, 20])
    with Context(CHECK_INDEX=1):
        ALL[name](numbers(), Tensor([2, 1, 0]) if name == "Embedding" else good)
        with pytest.raises(IndexOutOfRange) as caught:
            ALL[name](numbers(), bad)
    said = re.fullmatch(
        r"index -13, at (\(1,\)|\(1, 0\)|\(0, 1\)) of an index of shape (\(3,\)|\(3, 1\)|\(1, 3\)), is out of range "
        r"for axis [01] of shape (\(3, 4\)|\(12,\)): it has (3|4|12) elements(, and none is counted from the end)?\n"
        r"  index made at .*test_index_checks\.py:\d+      tensor made at .*test_index_checks\.py:\d+",
        str(caught.value),
    )
    assert said, str(caught.value)


def test_the_lines_are_those_that_made_the_tensors() -> None:
    """The index's line and the tensor's, not the line that used them."""
    table = numbers()
    index = Tensor([[0], [3]])
    with Context(CHECK_INDEX=1), pytest.raises(IndexOutOfRange) as caught:
        table[index]
    made = index.made_at[1]
    assert str(caught.value).startswith(
        "index 3, at (1, 0) of an index of shape (2, 1), is out of range for axis 0 of shape (3, 4): it has 3 elements"
    )
    assert re.search(rf"index made at \S+:{made}      tensor made at \S+:", str(caught.value))


@pytest.mark.parametrize("dtype", HOSTILE)
@pytest.mark.parametrize("name", READS)
def test_a_read_outside_gives_0_and_reads_no_other_memory(name: str, dtype: str) -> None:
    """PYTHON raises for each access outside of a buffer; the gradient of what was not there is 0."""
    with Context(DEV="PYTHON"):
        t, index = numbers(), Tensor(HOSTILE[dtype], dtype=dtype) + 0  # what is still to be computed is not read
        t.requires_grad_()
        found = READS[name](t, index)
        assert not found.numpy().any()
        assert not found.sum().gradient(t)[0].numpy().any()


@pytest.mark.parametrize("dtype", HOSTILE)
@pytest.mark.parametrize("name", WRITES)
def test_a_write_outside_is_dropped_and_writes_no_other_memory(name: str, dtype: str) -> None:
    """The tensor is as it was, and its gradient goes through."""
    with Context(DEV="PYTHON"):
        t, index = numbers(), Tensor(HOSTILE[dtype], dtype=dtype) + 0  # what is still to be computed is not read
        t.requires_grad_()
        found = WRITES[name](t, index)
        np.testing.assert_array_equal(found.numpy(), numbers().numpy())
        assert (found.sum().gradient(t)[0].numpy() == 1).all()


@pytest.mark.parametrize("index", [Tensor([0]), [0], np.array([0]), Tensor([[0, 0]])], ids=["t", "list", "array", "2d"])
def test_an_axis_of_no_elements_has_no_places(index: Any) -> None:
    """Whatever the index says it lies outside, so that it is known without a look at it."""
    with pytest.raises(IndexOutOfRange, match=r"axis 0 of shape \(0, 3\)"):
        Tensor.zeros(0, 3)[index]
    assert Tensor.zeros(0, 3)[Tensor([], dtype="int32")].shape == (0, 3)


def test_the_sentence_about_an_axis_of_no_elements() -> None:
    """It names the index's shape, the axis and both lines."""
    with pytest.raises(IndexOutOfRange) as caught:
        Tensor.zeros(2, 0).index_select(1, Tensor([0]))
    assert re.fullmatch(
        r"an index of shape \(1,\) cannot index axis 1 of shape \(2, 0\), which has no elements\n"
        r"  index made at \S+:\d+      tensor made at \S+:\d+",
        str(caught.value),
    )


def test_a_jit_checks_every_call() -> None:
    """With CHECK_INDEX=1 the function runs in every call; what was captured without it is not replayed then."""
    calls = []

    @TinyJit
    def pick(t: Tensor, i: Tensor) -> Tensor:
        calls.append(1)
        return t[i].realize()

    table = numbers().realize()
    for _ in range(3):
        pick(table, Tensor([0, 3]).realize())
    assert len(calls) == 2
    with Context(CHECK_INDEX=1):
        for _ in range(3):
            pick(table, Tensor([0, 1]).realize())
        assert len(calls) == 5
        with pytest.raises(IndexOutOfRange, match=r"^index 3, at \(1,\) of an index of shape \(2,\), is out of range"):
            pick(table, Tensor([0, 3]).realize())
    assert pick(table, Tensor([1, 3]).realize())[1].tolist() == [0.0] * 4
    assert len(calls) == 6


def test_inside_vmap_the_indices_of_all_examples_are_checked() -> None:
    """The place has the number of the example in front; also where one vmap is inside another."""
    table = numbers()
    rows = Tensor([[0, 1], [2, 3]])
    with Context(CHECK_INDEX=1):
        assert vmap(lambda i: table[i])(Tensor([[0, 1], [2, 2]])).shape == (2, 2, 4)
        for function in (lambda i: table[i], vmap(lambda i: table[i])):
            with pytest.raises(IndexOutOfRange, match=r"^index 3, at \(1, 1\) of an index of shape \(2, 2\), is out"):
                vmap(function)(rows)


def test_labels_of_a_loss_are_classes_or_ignored() -> None:
    """A label does not count from the end; without the setting the loss is NaN for one that is no class."""
    logits, labels = Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([0, -1])
    losses: list[Callable[[Tensor], Tensor]] = [
        logits.nll_loss,
        logits.cross_entropy,
        lambda y: logits.sparse_categorical_crossentropy(y, ignore_index=-100),
    ]
    with Context(CHECK_INDEX=1):
        for loss in losses:
            loss(Tensor([0, 1]))
            with pytest.raises(IndexOutOfRange) as caught:
                loss(labels)
            assert re.fullmatch(
                r"label -1, at \(1,\) of labels of shape \(2,\), is no class: axis 1 of the predictions, "
                r"shape \(2, 2\), has 2\n  labels made at \S+:\d+      predictions made at \S+:\d+"
                r"\n  hint: ignore_index=-1 leaves these samples out",
                str(caught.value),
            )
        assert logits.nll_loss(labels, ignore_index=-1, reduction="none").tolist() == [-1.0, 0.0]
        assert logits.sparse_categorical_crossentropy(labels).item() > 0
    without = logits.nll_loss(labels + 0, reduction="none").tolist()
    assert without[0] == -1.0 and without[1] != without[1]


def test_nothing_is_read_unless_asked_for() -> None:
    """Without the setting an index tensor stays as lazy as it was."""
    index = Tensor([0, 1]) + 1
    numbers()[index], numbers().gather(0, index.reshape(-1, 1)), numbers().take(index)
    assert index.uop.op is Ops.ADD


@pytest.mark.parametrize("name", ALL)
def test_indices_in_memory_are_checked(name: str) -> None:
    """Without a setting, as PyTorch does; nothing raises for numbers to be computed, nor in a TinyJit."""
    step = TinyJit(lambda t, i: ALL[name](t, i).realize())
    for wrong in (Tensor([1, 20]), Tensor([-13, 1]), Tensor([[0, 0], [1, 20]]).realize()[1].contiguous().realize()):
        with pytest.raises(IndexOutOfRange, match=r"^index (-13|20), at .* of an index of shape .* is out of"):
            ALL[name](numbers(), wrong)
        ALL[name](numbers(), wrong + 0).realize()
        for _ in range(3):
            step(numbers().realize(), wrong.realize())
    assert step.captured


@pytest.mark.parametrize("several", [200, 65_536])
def test_many_indices_in_memory_are_checked(several: int) -> None:
    """Up to the number that is read; one more is not."""
    at = np.zeros(several, dtype=np.int32)
    at[-1] = 12
    with pytest.raises(IndexOutOfRange, match=rf"index 12, at \({several - 1},\)"):
        numbers().take(Tensor(at))
    assert numbers().take(Tensor(np.append(np.zeros(65_536, np.int32), 12)))[-1].item() == 0


@pytest.mark.parametrize("dtype", HOSTILE)
def test_integers_of_each_width_are_read_right(dtype: str) -> None:
    """Each of the hostile numbers is named."""
    for wrong in HOSTILE[dtype]:
        with pytest.raises(IndexOutOfRange, match=rf"index {wrong}, at"):
            numbers().take(Tensor([0, wrong], dtype=dtype))
    assert numbers().take(Tensor([0, 11], dtype=dtype)).tolist() == [1.0, 12.0]


def test_an_index_that_was_written_to_is_not_read_too_early() -> None:
    """A write that waits makes it one that is to be computed; afterwards its new numbers count."""
    index = Tensor([0, 7]).realize()
    index[1] = 1
    assert numbers()[index].shape == (2, 4)
    index.realize()
    index[1] = 7
    index.realize()
    with pytest.raises(IndexOutOfRange, match="index 7"):
        numbers()[index]


def test_labels_in_memory_are_checked() -> None:
    """Of losses and of one_hot, which do not count from the end; those that are ignored may be any number."""
    logits = Tensor.zeros(2, 3)
    uses: list[Callable[[Tensor], Tensor]] = [
        logits.cross_entropy, logits.nll_loss, logits.sparse_categorical_crossentropy, logits.multi_margin_loss,
        lambda y: y.one_hot(3),
    ]  # fmt: skip
    for function in uses:
        function(Tensor([0, 2]))
        for wrong in (Tensor([0, 3]), Tensor([0, -2])):
            with pytest.raises(IndexOutOfRange, match=r"^label (3|-2), at \(1,\) of labels of shape \(2,\), is no"):
                function(wrong)
            function(wrong + 0).realize()
    for wrong in (-100, 3, 255):
        labels = Tensor([0, wrong])
        assert logits.cross_entropy(labels, ignore_index=wrong).item() == pytest.approx(1.0986123)
        assert logits.nll_loss(labels, ignore_index=wrong).item() == 0
        with pytest.raises(IndexOutOfRange):
            logits.cross_entropy(labels, ignore_index=-1)


def test_a_negative_label_hints_at_ignore_index() -> None:
    """PyTorch's losses ignore -100 unless told otherwise; these ignore what they are told to, others nothing."""
    hint = r"\n  hint: ignore_index=-100 leaves these samples out$"
    logits = Tensor.zeros(1, 3)
    for loss in (logits.cross_entropy, logits.nll_loss, logits.sparse_categorical_crossentropy):
        with pytest.raises(
            IndexOutOfRange, match=r"^label -100, at \(0,\) of labels of shape \(1,\), is no class.*\n.*" + hint
        ):
            loss(Tensor([-100]))
    for without in (lambda: logits.cross_entropy(Tensor([3])), lambda: logits.multi_margin_loss(Tensor([-100]))):
        with pytest.raises(IndexOutOfRange) as caught:
            without()
        assert "hint" not in str(caught.value)


LOOKUPS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "Embedding": lambda t, i: _embedding(t)(i),
    "embedding": lambda t, i: i.embedding(t),
    "embedding_bag": lambda t, i: i.reshape(1, -1).embedding_bag(t),
}


@pytest.mark.parametrize("name", LOOKUPS)
@pytest.mark.parametrize("wrong", [3, -1, -4])
def test_numbers_of_rows_in_memory_are_checked(name: str, wrong: int) -> None:
    """Without a setting, on a device whose memory the host sees; -1 is no row, so that a padding of -1 trains none."""
    assert LOOKUPS[name](numbers(), Tensor([2, 0])).shape
    with pytest.raises(IndexOutOfRange, match=f"index {wrong}, at .* axis 0 of shape .3, 4.: it has 3 elements"):
        LOOKUPS[name](numbers(), Tensor([0, wrong]))


@pytest.mark.parametrize("name", LOOKUPS)
def test_numbers_of_rows_that_are_to_be_computed_are_not_read(name: str) -> None:
    """A lookup stays lazy, gives zeros there, and a function under TinyJit is captured."""
    assert not LOOKUPS[name](numbers(), Tensor([3, 3]) + 0).numpy().any()
    step = TinyJit(lambda t, i: LOOKUPS[name](t, i).realize())
    for _ in range(3):
        assert not step(numbers(), Tensor([3, 3])).numpy().any()
    assert step.captured == 1


@pytest.mark.parametrize(
    ("offsets", "last", "words"),
    [
        ([0, 7], False, "offset 1 is 7"),
        ([0, 4, 9], False, "offset 1 is 4"),
        ([1, 2], False, "the first is 1"),
        ([-1, 2], False, "the first is -1"),
        ([0, 2, 1], False, "offset 2 is 1, after 2"),
        ([0, -1], False, "offset 1 is -1, after 0"),
        ([0, 2, 7], True, "offset 2 is 7"),
        ([3], True, "the first is 3"),
    ],
)
def test_offsets_of_bags_are_in_order(offsets: list[int], last: bool, words: str) -> None:
    """As in PyTorch, which raises for each of these; a bag of such offsets was zeros, or had numbers of another one."""
    numbers_, table = Tensor([0, 1, 2]), numbers()
    for given in (offsets, Tensor(offsets), np.array(offsets)):
        with pytest.raises(ValueError, match=f"^embedding_bag of 3 numbers needs offsets .* at most 3: {words}\n"):
            numbers_.embedding_bag(table, given, include_last_offset=last)
    numbers_.embedding_bag(table, Tensor(offsets) + 0, include_last_offset=last).realize()
    with Context(CHECK_INDEX=1), pytest.raises(ValueError, match=words):
        numbers_.embedding_bag(table, Tensor(offsets) + 0, include_last_offset=last)


def test_offsets_of_bags_are_integers_or_none_of_them() -> None:
    """Bags may be empty; floats were taken, as an empty list is, and no offset at all was another error."""
    at, table = Tensor([0, 1, 2]), numbers()
    assert at.embedding_bag(table, [0, 3, 3]).tolist()[1:] == [[0.0] * 4] * 2
    assert at.embedding_bag(table, []).shape == (0, 4) == at.embedding_bag(table, [0], include_last_offset=True).shape
    with pytest.raises(DTypeError, match="^embedding_bag needs offsets of integers, got dtypes.float"):
        at.embedding_bag(table, [0.0, 2.0])
    with pytest.raises(ShapeError, match="^embedding_bag with include_last_offset needs at least 1 offset, got none"):
        at.embedding_bag(table, [], include_last_offset=True)
