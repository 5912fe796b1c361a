"""Actions as text: what is printed is read again, and what is no action is refused in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygraft.codegen.action import Action, action, parse, show
from tinygraft.errors import ActionError

NUMBERS = st.lists(st.integers(0, 10**6), min_size=1, max_size=3).map(tuple)
ACTIONS = st.one_of(
    st.sampled_from(["parallel", "stream"]).map(Action),
    st.builds(Action, st.sampled_from(["stage", "unroll", "a_b"]), NUMBERS, st.lists(NUMBERS, max_size=4).map(tuple)),
)


@given(st.lists(ACTIONS, max_size=4).map(tuple))
def test_text_is_read_as_what_was_written(actions: tuple[Action, ...]) -> None:
    """Any list of actions."""
    assert parse(show(actions)) == actions


def test_actions_are_written_as_people_write_them() -> None:
    """Loops are joined by +, the numbers of one amount by x."""
    asked = (
        action("vectorise", 1, 8),
        Action("reorder", (1, 0)),
        Action("tile", (2,), ((1, 6), (64,))),
        Action("parallel"),
    )
    assert show(asked) == "vectorise(1, 8), reorder(1+0), tile(2, 1x6, 64), parallel"
    assert parse(" vectorise( 1,8 ) ,reorder(1+0),tile(2, 1x6, 64),parallel ") == asked
    assert parse("") == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Vectorise(1)", "cannot read 'Vectorise(1)' as an action; actions look like 'vectorise(1, 8), parallel'"),
        ("parallel) x", "cannot read 'parallel) x' as an action; actions look like 'vectorise(1, 8), parallel'"),
        ("unroll(0, )", "cannot read 'unroll(0, )' as an action; in brackets stand loops, such as 0 or 0+2, and "
                        "amounts, such as 8 or 4x2"),
    ],
)  # fmt: skip
def test_what_is_no_action_is_refused(text: str, words: str) -> None:
    """The sentence says what was found and what is expected."""
    with pytest.raises(ActionError) as error:
        parse(text)
    assert str(error.value) == words
