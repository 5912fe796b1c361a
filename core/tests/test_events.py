"""Observers: who is told, until when, and what happens to one that raises."""

from __future__ import annotations

import threading
import warnings

import pytest

from tinygraft import events


def test_nobody_listens_at_first() -> None:
    """Without an observer `active` is False and stage() does nothing."""
    assert events.active is False
    events.stage("linear", object())


def test_observer_sees_every_stage_until_undone() -> None:
    """An observer gets the events between observe() and its undo, in order, with name, subject and kernel."""
    seen: list[events.StageEvent] = []
    subject = object()
    stop = events.observe(seen.append)
    try:
        assert events.active is True
        events.stage("schedule", subject)
        events.stage("source", subject, "k1")
    finally:
        stop()
    events.stage("schedule", subject)
    told = [(e.name, e.subject, e.kernel) for e in seen]
    assert told == [("schedule", subject, ""), ("source", subject, "k1")]
    assert events.active is False


def test_undo_twice_drops_only_its_own() -> None:
    """Calling an undo a second time leaves the other observers in place."""
    first: list[events.StageEvent] = []
    second: list[events.StageEvent] = []
    stop_first, stop_second = events.observe(first.append), events.observe(second.append)
    try:
        stop_first()
        stop_first()
        events.stage("linear", 1)
        assert (len(first), len(second)) == (0, 1)
    finally:
        stop_second()


def test_observer_that_raises_is_dropped_with_one_warning() -> None:
    """A raising observer is warned about once and dropped; the others and the caller go on."""
    seen: list[events.StageEvent] = []

    def broken(event: events.StageEvent) -> None:
        raise ValueError("out of ink")

    stops = [events.observe(broken), events.observe(seen.append)]
    try:
        sentence = (
            r"the observer .*broken.* raised ValueError: out of ink when notified of the stage 'linear'; "
            r"it is dropped for events of that kind"
        )
        with pytest.warns(RuntimeWarning, match=sentence):
            events.stage("linear", 1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            events.stage("source", 2)
        assert [e.name for e in seen] == ["linear", "source"]
    finally:
        for stop in stops:
            stop()
    assert events.active is False


def test_many_threads_may_observe_and_stage_at_once() -> None:
    """Observers added, told and dropped from eight threads lose no event of theirs and leave none behind."""
    lost: list[int] = []

    def work(number: int) -> None:
        for turn in range(200):
            seen: list[events.StageEvent] = []
            stop = events.observe(seen.append)
            events.stage("linear", (number, turn))
            stop()
            if (number, turn) not in [e.subject for e in seen]:
                lost.append(turn)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lost == []
    assert events.active is False
