"""Names of other libraries for collectives and ranks are answered with what is used here."""

import copy

import pytest

from tinygraft import collectives
from tinygraft.collectives.other_names import in_place_of


@pytest.mark.parametrize(("name", "said"), [
    ("Allreduce", ": all_reduce"),
    ("Get_rank", ": collectives.world().rank"),
    ("bcast", ": broadcast; of an object broadcast_object"),
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
        AttributeError, match=r"no attribute 'init_process_group': collectives.world\(\), which needs no"
    ):
        collectives.init_process_group  # noqa: B018


def test_known_names_are_suggested():
    """What is near to a name that there is becomes a hint."""
    assert in_place_of("wrold", ["world"]) == "\n  hint: did you mean 'world'?"
