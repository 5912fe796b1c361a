"""Engines of collectives: found by their entry points, listed with the reason where they cannot be used."""

import os
import sys
import threading

import pytest

from tinygraft.collectives import Alone, CollectiveProbe, CollectiveSpec, engines, run_ranks
from tinygraft.config import Context
from tinygraft.errors import CollectiveError
from tinygraft.installed.entries import forget
from tinygraft.installed.records import Status

MODULE = """
from tinygraft.collectives import Alone, CollectiveProbe, CollectiveSpec
FACTS = dict(name="some", summary="one that works", api=(0, 1), started="some_engine:started",
probe="some_engine:probe",
             transport="some_engine:transport",
             launcher="some_engine:launcher")
GOOD = CollectiveSpec(**FACTS)
LATER = CollectiveSpec(**FACTS | {"api": (0, 4)})
ABSENT = CollectiveSpec(**FACTS | {"probe": "some_engine:absent", "install_hint": "install it"})
WRONG = CollectiveSpec(**FACTS | {"probe": "some_engine:started", "transport": "some_engine:started"})
NOTHING = 3
started = lambda: True
probe = lambda: CollectiveProbe(True, "here")
absent = lambda: CollectiveProbe(False, "no library")
transport = lambda: Alone()
launcher = lambda count, environment: ["env", *[f"{k}={v}" for k, v in environment.items()]]
"""


@pytest.fixture
def declared(tmp_path, monkeypatch):
    """Declare an engine by the name of its spec in MODULE, once or by several distributions."""
    (tmp_path / "some_engine.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(engines, "path", [str(tmp_path)])
    monkeypatch.setattr(engines, "_world", [])
    monkeypatch.setattr(engines.atexit, "register", lambda *arguments: None)

    def declare(spec, *distributions):
        for distribution in distributions or ("engine-one",):
            info = tmp_path / f"{distribution}-1.0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
            (info / "entry_points.txt").write_text(f"[tinygraft.collectives]\nsome = some_engine:{spec}\n")
        forget()
        return engines.records()

    yield declare
    forget()
    sys.modules.pop("some_engine", None)


def test_an_engine_that_started_this_process_is_its_world(declared):
    """Without a setting the engine is used that says that it started this process."""
    (record,) = declared("GOOD")
    assert (record.name, record.distribution, record.status) == ("some", "engine-one", Status.DECLARED)
    assert engines.world() is engines.world()
    assert isinstance(engines.world().transport, Alone)


@pytest.mark.parametrize(("spec", "status", "detail"), [
    ("LATER", Status.INCOMPATIBLE, "it was made for version 0.4 of collectives; here is 0.3"),
    ("ABSENT", Status.UNAVAILABLE, "no library"),
    ("NOTHING", Status.INVALID, "some_engine:NOTHING is a int, and no CollectiveSpec"),
    ("MISSING", Status.BROKEN, "AttributeError: module 'some_engine' has no attribute 'MISSING'"),
    ("WRONG", Status.INVALID, "its probe returned a bool, and no CollectiveProbe"),
])  # fmt: skip
def test_one_that_cannot_be_used_is_a_record_with_the_reason(declared, spec, status, detail):
    """A spec of another version, none at all, a missing library or a wrong probe are statuses, and errors where
    named."""
    (record,) = declared(spec)
    assert engines.probe(record) is None
    assert (record.status, record.detail) == (status, detail)
    with (
        Context(COLLECTIVES="some"),
        pytest.raises(CollectiveError, match="the engine some of engine-one 1.0 cannot be"),
    ):
        engines.world()


def test_two_packages_with_one_engine(declared):
    """An engine that two packages provide is ambiguous."""
    (record,) = declared("GOOD", "engine-one", "engine-two")
    assert record.status is Status.AMBIGUOUS
    assert "engine-one 1.0" in record.detail
    assert "engine-two 1.0" in record.detail


def test_an_engine_can_be_switched_off(declared):
    """TINYGRAFT_DISABLE_PLUGINS names it, and it is not imported."""
    with Context(TINYGRAFT_DISABLE_PLUGINS="some"):
        (record,) = declared("GOOD")
        assert record.status is Status.DISABLED
        assert engines.world().size == 1
    assert "some_engine" not in sys.modules


def test_an_engine_that_is_not_installed(declared):
    """The error names what is installed, and what was probably meant."""
    declared("GOOD")
    with Context(COLLECTIVES="sone"), pytest.raises(CollectiveError, match="did you mean 'some'"):
        engines.world()


def test_one_of_several_processes_without_an_engine_is_warned(declared, monkeypatch):
    """A process that a launcher started beside others, and that no engine connects to them, says so."""
    monkeypatch.setenv("PMI_SIZE", "4")
    with pytest.warns(RuntimeWarning, match="PMI_SIZE=4 says that this is one of 4 processes, but no engine is"):
        assert engines.world().size == 1


def test_a_child_of_one_rank_is_a_world_of_its_own(declared, monkeypatch):
    """What the only rank starts is alone; what one of several starts has its numbers, and no warning."""
    monkeypatch.setenv(engines.CHILD_OF, "1 0 1 0 1")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    assert repr(engines.world()) == "<rank 0 of 1, one process>"
    engines._world.clear()
    monkeypatch.setenv(engines.CHILD_OF, "1 2 3 2 3")
    assert repr(engines.world()) == "<rank 2 of 3, a process that a rank started>"


def test_a_forked_child_does_not_end_with_the_ranks(declared):
    """What ends the ranks at the end of Python does nothing in a process that is no rank."""
    declared("GOOD")
    world = engines.world()
    engines._close(os.getpid() + 1)
    assert not world.closed
    engines._close(os.getpid())
    assert world.closed


def test_a_spec_is_plain_data():
    """A probe and a spec compare by their fields."""
    assert CollectiveProbe(True, "x") == CollectiveProbe(True, "x")
    facts = dict.fromkeys(("name", "summary", "started", "probe", "transport", "launcher"), "a:b")
    assert CollectiveSpec(api=(0, 1), **facts) == CollectiveSpec(api=(0, 1), **facts)


def test_ranks_share_the_seed_of_the_first_one(monkeypatch):
    """Their clocks differ, so each would draw other numbers where a program gives no seed."""
    here, shared = threading.local(), []
    monkeypatch.setattr(engines, "start_seed", lambda: 0xFFFFFFF0 + here.rank)
    monkeypatch.setattr(engines, "share_start_seed", shared.append)

    def work(comm):
        here.rank = comm.rank
        engines._share_seed(comm)

    run_ranks(3, work)
    assert shared == [0xFFFFFFF0] * 3
