"""Outputs of several sections: which are, that each has its own formula, and that values stay the same."""

from __future__ import annotations

import numpy as np
import pytest

from tensor_nodes import memory, move, total
from tinygraft import Tensor
from tinygraft.dtype import dtypes
from tinygraft.schedule.draft import Draft
from tinygraft.schedule.regroup import regroup
from tinygraft.schedule.sections import Sections, is_of_sections, sections_of
from tinygraft.target import Target
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder

F = dtypes.float32


def cat(axis: int, *sources: UOp) -> UOp:
    """CAT."""
    return UOp(Ops.CAT, F, sources, axis)


def test_a_cat_and_what_is_made_of_it_are_cut_where_its_sources_meet() -> None:
    """Sources of other lengths are cut into sections of their common divisor; elementwise ops keep the sections."""
    a, b = memory(4, 32), memory(4, 64)
    assert sections_of(cat(1, a, a), ()) == Sections(1, 2)
    assert sections_of(cat(1, a, b) * 2.0 + 1.0, ()) == Sections(1, 3)
    assert Sections(1, 3).loops((4, 96)) == (4, 32)


def test_a_sum_of_pads_is_cut_where_they_end() -> None:
    """The gradient of `chunk` before it is a CAT."""
    a, b = memory(4, 32), memory(4, 32)
    first, second = move(Ops.PAD, a, ((0, 0), (0, 32))), move(Ops.PAD, b, ((0, 0), (32, 0)))
    assert sections_of(first + second, ()) == Sections(1, 2)


def test_what_is_not_cut() -> None:
    """Short runs in memory, many sections for few sources, reductions inside, loaded values, and assigned ones."""
    a = memory(4, 32)
    assert sections_of(cat(1, memory(4, 8), memory(4, 8)), ()) is None
    assert sections_of(cat(1, memory(4, 1), memory(4, 1000)), ()) is None
    assert sections_of(cat(1, a, move(Ops.EXPAND, total(a, 1), (4, 32))), ()) is None
    whole = cat(1, a, a)
    assert sections_of(whole * 2.0, {whole}) is None
    assert sections_of(UOp(Ops.ASSIGN, F, (memory(4, 64), whole)), ()) is None


def test_each_section_is_stored_with_its_own_formula_alone() -> None:
    """One loop over a section, a store for each, and no condition on an index is left."""
    a, b = memory(4, 32), memory(4, 32)
    node = cat(1, a * 2.0, b + 1.0)
    draft = Draft("PYTHON", {node: UOp.buffer("PYTHON", 4 * 64, F)})
    assert draft.add(node, set())
    ops = [n.op for n in postorder(*draft.stores)]
    assert len(draft.stores) == 2 and Ops.WHERE not in ops and Ops.CMPLT not in ops
    assert [int(r.src[0].arg) for r in draft.lowering.loops] == [4, 32]


def test_what_sections_have_in_common_is_computed_once() -> None:
    """2**x of one value in two sections is one node."""
    x = memory(4, 32)
    power = UOp(Ops.EXP2, F, (x,))
    node = cat(1, power * 2.0, power * 3.0)
    draft = Draft("PYTHON", {node: UOp.buffer("PYTHON", 4 * 64, F)})
    draft.add(node, set())
    assert sum(n.op is Ops.EXP2 for n in postorder(*draft.stores)) == 1


def test_a_stack_of_equal_rows_is_one_kernel_up_to_its_buffers() -> None:
    """56 sources are left as they are, 57 are put together in groups; short ones are in groups from 9 on."""
    rows = [memory(1, 64) for _ in range(58)]
    assert is_of_sections(cat(0, *rows)) and not is_of_sections(cat(0, memory(1, 4), memory(1, 4)))
    for count, groups in ((56, 56), (58, 2)):
        node = cat(0, *rows[:count])
        order = postorder(node)
        assert len(regroup(order, Target()).get(node, node).src) == groups
    short = cat(0, *[memory(1, 4) for _ in range(16)])
    assert len(regroup(postorder(short), Target())[short].src) == 2


@pytest.mark.parametrize("count", [2, 9, 31, 64, 131])
@pytest.mark.parametrize("axis", [0, 1])
def test_values_of_stacks(count: int, axis: int) -> None:
    """Any number of sources, along the first axis and inside of others."""
    arrays = np.random.default_rng(count).standard_normal((count, 5, 16)).astype(np.float32)
    tensors = [Tensor(array).realize() for array in arrays]
    whole = Tensor.cat(*tensors, dim=axis)
    np.testing.assert_array_equal(whole.numpy(), np.concatenate(arrays, axis))
    changed = (Tensor.cat(*[t * 2 for t in tensors], dim=axis) + 1).relu()
    np.testing.assert_array_equal(changed.numpy(), np.maximum(np.concatenate(arrays * 2, axis) + 1, 0))


def test_rows_of_a_gather_that_are_used_one_by_one() -> None:
    """The gradient is a scatter of a CAT of all rows, as that of ctc_loss: the CAT is stored first."""
    random = np.random.default_rng(0)
    x = random.standard_normal((20, 30)).astype(np.float32)
    indices = random.integers(0, 30, (20, 24))
    weights = random.standard_normal((20, 24)).astype(np.float32)
    t = Tensor(x, requires_grad=True)
    rows, total_ = t.gather(1, Tensor(indices)).contiguous(), Tensor.zeros(24)
    for row in range(20):
        total_ = (total_ + rows[row] * Tensor(weights[row])).contiguous()
    total_.sum().backward()
    assert t.grad is not None
    new = regroup(list(postorder(t.grad.uop)), Target())
    cats = [cat for old, cat in new.items() if old.op is Ops.CAT and len(old.src) == 20]
    assert [cat.op for cat in cats] == [Ops.CONTIGUOUS]
    wanted = np.zeros_like(x)
    np.add.at(wanted, (np.arange(20)[:, None], indices), weights)
    np.testing.assert_allclose(t.grad.numpy(), wanted, rtol=1e-5, atol=1e-6)
