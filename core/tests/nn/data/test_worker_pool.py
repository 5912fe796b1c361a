"""Workers of a DataLoader: the same batches for any number of them, errors that name them, and no process is left."""

from __future__ import annotations

import copy
import itertools
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from loaded_sets import Counting, Dividing, Drawing, Failing, Large, OfEpochs, Slow, pairs, say_seed
from tinygraft import Tensor
from tinygraft.errors import WorkerError
from tinygraft.nn.data import DataLoader, get_worker_info


def values(batches: Any) -> list[Any]:
    """Batches as lists."""
    return [tuple(part.tolist() for part in batch) if isinstance(batch, tuple) else batch.tolist() for batch in batches]


def nothing_is_left() -> bool:
    """Whether no worker runs."""
    return not [child for child in multiprocessing.active_children() if child.name.startswith("tinygraft loads")]


@pytest.mark.parametrize("workers", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_the_number_of_workers_changes_no_value(workers: int) -> None:
    """Nor whether they stay; random numbers in the data set included."""
    expected = DataLoader(Drawing(), 7, shuffle=True, seed=4)
    epochs = [values(expected), values(expected)]
    for stay in (False, True) if workers == 1 else (True,):
        loader = DataLoader(Drawing(), 7, shuffle=True, seed=4, num_workers=workers, persistent_workers=stay)
        assert [values(loader), values(loader)] == epochs
        assert stay or nothing_is_left()
        del loader
        assert nothing_is_left()


@pytest.mark.slow
def test_iterable_data_sets_are_divided() -> None:
    """Every worker reads all of one and makes its own batches; one that asks who it is divides itself."""
    assert get_worker_info() is None
    batches = values(DataLoader(Counting(13), 3, seed=2))
    loader = DataLoader(Counting(13), 3, seed=2, num_workers=2)
    assert values(loader) == batches
    passing = iter(loader)
    next(passing)
    again = DataLoader(Counting(13), 3, num_workers=2)
    again.load_state_dict(loader.state_dict())
    assert values(again) == values(passing)
    assert sorted(itertools.chain(*values(DataLoader(Dividing(13), 2, num_workers=2)))) == list(range(13))


def test_an_iterable_data_set_in_workers_that_stay_is_told_each_epoch() -> None:
    """As one that is read here."""
    here, there = DataLoader(OfEpochs(), 2), DataLoader(OfEpochs(), 2, num_workers=1, persistent_workers=True)
    for loader in (here, there):
        assert [values(loader) for _ in range(3)] == [[[0, 0]], [[1, 1]], [[2, 2]]]


def test_large_batches_and_what_a_collate_fn_returns() -> None:
    """Through shared memory, which grows and is used again; tensors of any dtype, arrays and text."""
    loader = DataLoader(Large(), 1, num_workers=1, persistent_workers=True)
    for _ in range(2):
        for index, batch in enumerate(loader):
            assert batch["name"] == [f"row {index}"] and batch["x"].shape == (1, 64, 64 + 64 * index)
            assert (batch["x"] == index).all().item()
    del loader
    (indices, tensor, text), *_ = DataLoader(Drawing(5), 5, num_workers=1, collate_fn=pairs)
    assert indices.tolist() == [0, 1, 2, 3, 4] == tensor.tolist() and tensor.dtype.name == "bfloat16"
    indices += 1  # memory of its own
    assert text == {"of": "[0, 1, 2, 3, 4]"} and isinstance(tensor, Tensor)


@pytest.mark.slow
def test_each_worker_has_a_seed_in_each_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """worker_init_fn sees it, and draws from it."""
    monkeypatch.setenv("LOADED_SETS", str(tmp_path))
    loader = DataLoader(Drawing(4), 2, num_workers=2, worker_init_fn=say_seed, seed=1)
    found = []
    for _ in range(2):
        list(loader)
        found += [(tmp_path / name).read_text() for name in "01"]
    loader.set_epoch(0)
    list(loader)
    assert [(tmp_path / name).read_text() for name in "01"] == found[:2] and len(set(found)) == 4


def test_an_error_names_worker_and_sample_and_has_its_traceback() -> None:
    """It is the error of the data set, in its class."""
    with pytest.raises(KeyError) as caught:
        list(DataLoader(Failing("key"), 4, num_workers=1))
    (note,) = caught.value.__notes__
    assert note.startswith("in worker 0 of 1, sample 7:\n\nTraceback (most recent call last):\n")
    assert 'raise KeyError("seven")' in note and nothing_is_left()


def test_workers_go_on_behind_an_error() -> None:
    """The batch behind it is the one that it would have been, and the workers end with the iteration."""
    whole = values(DataLoader(Drawing(), 4, seed=1))
    passing = iter(DataLoader(Failing("key"), 4, num_workers=2, seed=1))
    assert values([next(passing)]) == whole[:1]
    with pytest.raises(KeyError):
        next(passing)
    assert values(passing) == whole[2:] and nothing_is_left()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("local", r"^LocalError: seven of a class that pickle does not find, in worker 0 of 1, sample 7:\n\nTraceback"),
        ("killed", r"^worker 0 \(process \d+\) was ended by SIGKILL before batch 1\n  hint: the system ends processes"),
        ("exit", r"^worker 0 \(process \d+\) ended with code 3 before batch 1\n  hint: a script that starts workers"),
    ],
)
def test_workers_that_end(how: str, message: str) -> None:
    """By an error that cannot be sent, by a signal, by themselves."""
    with pytest.raises(WorkerError, match=message):
        list(DataLoader(Failing(how), 4, num_workers=1))
    assert nothing_is_left()


def test_what_cannot_be_sent() -> None:
    """A data set that pickle refuses, and a way to start workers that hangs."""
    with pytest.raises(WorkerError, match=r"^the data set cannot be sent to workers, pickle says: .*\n  hint: lamb"):
        next(iter(DataLoader([lambda: 1], num_workers=1)))
    with pytest.raises(WorkerError, match='^workers are started by "spawn" or "forkserver": a fork copies locks'):
        DataLoader([1], num_workers=1, multiprocessing_context="fork")
    with pytest.raises(WorkerError, match=r"^collate_fn cannot be sent to workers, pickle says: "):
        next(iter(DataLoader(range(4), num_workers=1, collate_fn=lambda samples: samples)))
    with pytest.raises(WorkerError, match=r"^worker_init_fn cannot be sent to workers, pickle says: "):
        next(iter(DataLoader(range(4), num_workers=1, worker_init_fn=lambda number: None)))


def test_a_copy_of_a_loader_has_workers_of_its_own() -> None:
    """By deepcopy and by pickle, while workers stay and an iteration goes on; it begins where the next one would."""
    loader = DataLoader(range(6), 3, shuffle=True, seed=1, num_workers=1, persistent_workers=True)
    passing = iter(loader)
    next(passing)
    copies = copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))
    next(passing)
    assert next(passing, None) is None
    expected = values(loader)
    assert [values(one) for one in copies] == [expected, expected]


def test_leaving_and_waiting_leave_no_process() -> None:
    """A break ends workers in the middle of a batch; a timeout says which batch did not come."""
    begin = time.monotonic()
    for _ in DataLoader(Slow(0.01), 2, num_workers=1):
        break
    assert nothing_is_left() and time.monotonic() - begin < 30
    with pytest.raises(TimeoutError, match=r"^worker 0 has not made batch 0 in 0\.2 seconds, its timeout$"):
        next(iter(DataLoader(Slow(0.5), 1, num_workers=1, timeout=0.2)))
    assert nothing_is_left()


SCRIPT = """
import sys
from loaded_sets import Slow
from tinygraft.nn.data import DataLoader
if __name__ == "__main__":
    for number, batch in enumerate(DataLoader(Slow(0.05), 1, num_workers=2)):
        if not number:
            from multiprocessing import active_children
            print(*[child.pid for child in active_children()], flush=True)
"""


def is_running(process: int) -> bool:
    """Whether there is a process of this number that has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_parent(how: signal.Signals, tmp_path: Path) -> None:
    """By Ctrl-C, which reaches the whole group, with one KeyboardInterrupt; and where the parent is killed."""
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    path = os.pathsep.join(sys.path)
    with subprocess.Popen(
        [sys.executable, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env={**os.environ, "PYTHONPATH": path},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        workers = [int(word) for word in process.stdout.readline().split()]
        if how is signal.SIGINT:
            os.killpg(process.pid, how)
        else:
            process.kill()
        _, errors = process.communicate(timeout=60)
    assert len(workers) == 2
    until = time.monotonic() + 20
    while any(map(is_running, workers)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(is_running, workers))
    assert errors.count("KeyboardInterrupt") == (how is signal.SIGINT)
