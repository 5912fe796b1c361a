"""Names of other libraries for collectives and ranks are answered with what is used here."""

import copy

import numpy as np
import pytest

from tinygraft import Tensor, collectives
from tinygraft.errors import ShapeError


@pytest.mark.parametrize(("name", "said"), [
    ("Allreduce", "\n  hint: all_reduce"),
    ("Get_rank", "\n  hint: collectives.world().rank"),
    ("bcast", "\n  hint: broadcast; of an object broadcast_object"),
    ("all_redcue", "\n  hint: did you mean 'all_reduce'?"),
    ("nothing_like_it", ""),
])  # fmt: skip
def test_a_communicator_answers_names_of_mpi4py(name, said):
    """A name that a Communicator lacks is an AttributeError that says what it has, or what was meant."""
    with pytest.raises(AttributeError) as error:
        getattr(collectives.Communicator(collectives.Alone()), name)
    assert str(error.value) == f"a Communicator has no attribute {name!r}{said}"


def test_what_python_asks_for_has_no_hint():
    """Copying asks for names of its own, which are absent as of any object."""
    assert copy.copy(collectives.Communicator(collectives.Alone())).size == 1


def test_the_package_answers_names_of_pytorch():
    """tinygraft.collectives says what takes the place of init_process_group."""
    with pytest.raises(
        AttributeError, match=r"no attribute 'init_process_group'\n  hint: collectives.world\(\), which needs no"
    ):
        collectives.init_process_group  # noqa: B018


def test_what_a_communicator_has_is_said_of_the_package():
    """collectives.all_reduce is of the world, and of tensors in nn.parallel."""
    with pytest.raises(AttributeError, match=r"hint: collectives.world\(\).all_reduce; tinygraft.nn.parallel has the"):
        collectives.all_reduce  # noqa: B018
    with pytest.raises(AttributeError, match="hint: did you mean 'world'"):
        collectives.wrold  # noqa: B018


@pytest.mark.parametrize(("op", "meant"), [
    ("avg", "mean"), ("SUM", "sum"), ("product", "prod"), (type("ReduceOp", (), {"name": "MAX"})(), "max")
])  # fmt: skip
def test_other_words_for_ops(op, meant):
    """Those of PyTorch, in any case."""
    with pytest.raises(ValueError, match=f"hint: did you mean '{meant}'"):
        collectives.Communicator(collectives.Alone()).all_reduce(np.ones(3), op)


def test_what_is_no_array_cannot_take_a_result():
    """A tensor, a list, and a part of an array that is not contiguous."""
    comm = collectives.Communicator(collectives.Alone())
    with pytest.raises(TypeError, match="out is an array that takes the result, got list"):
        comm.all_reduce(np.ones(3), out=[0.0] * 3)
    with pytest.raises(ShapeError, match="that is not contiguous, such as a part of a larger one$"):
        comm.all_reduce(np.ones(3), out=np.ones(6)[::2])
    with pytest.raises(TypeError, match="a communicator passes arrays; tinygraft.nn.parallel has"):
        comm.receive(Tensor.ones(3), 0)
    with pytest.raises(TypeError, match=r"receive fills an array, such as np.empty\(3, 'float32'\), got list"):
        comm.receive([1.0], 0)
