"""DataLoader: the batches of a data set, in a seeded order, made here or ahead of time by worker processes.

The arguments are those of PyTorch's; `seed` and `device` are added. What is different: the values of a batch do not
depend on the number of workers, and a loader has a state, which checkpoints keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any

from tinygraft.errors import DTypeError, FileFormatError, ShapeError
from tinygraft.nn.data.epochs import EpochTeller
from tinygraft.nn.data.making import BatchJob, BatchMaker, SampleFailure
from tinygraft.nn.data.samplers import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SeededSampler,
    SequentialSampler,
    count_of,
)
from tinygraft.nn.data.worker_pool import WorkerPool, context_of
from tinygraft.nn.described import answered
from tinygraft.tensor.ops.random import order_seed
from tinygraft.tensor.primitives.keyword_aliases import Flag, check_flags
from tinygraft.uop.uop import Place


class DataLoader:
    """Goes through a data set in batches of Tensors. Each iteration is the next epoch.

    `dataset` has `__getitem__` and `__len__`, or only `__iter__`; a tensor or array is one of its rows. `shuffle` draws
    a new order in each epoch from `seed`: the first loader without one has that of Tensor.manual_seed, each further one
    another. `sampler` gives indices in an order of
    its own, `batch_sampler` lists of them. batch_size=None gives samples as they are. The last batch is shorter where
    the size does not divide, or left out with `drop_last`. `collate_fn` makes a batch of a list of samples, by default
    `default_collate` on `device`; what it returns is not changed.

    With `num_workers` processes batches are made ahead, `prefetch_factor` (2) by each. The random numbers of Python,
    NumPy, Tensor and PyTorch begin anew for each batch, from the seed, the epoch and the number of the batch: its
    values are those of any other number of workers. `worker_init_fn` is called with the number of the worker.
    `timeout` is how many seconds a batch may take, 0 is any. `persistent_workers` stay from epoch to epoch.
    `pin_memory` is there for scripts, and changes nothing: a batch goes to a device through its pinned memory in any
    case, where it has some, and training does not wait for that copy.

    With `distributed` each rank of the program (collectives.world) gets its own samples of a common order, by a
    DistributedSampler of all ranks with `shuffle`, `drop_last` and `seed` (0 by default): `batch_size` is that of a
    rank, and all have the same number of batches.

    An iterable data set with workers is read whole by each, which make every `num_workers`-th batch; where it calls
    `get_worker_info` it divides itself. `set_epoch` of samplers and of iterable data sets is called
    before each epoch, also in workers; where a script calls that of a sampler the next iteration is that epoch.

    Raises ShapeError and DTypeError for arguments that do not fit. Errors of the data set are raised as they are, with
    a note that names the sample and the worker, and `next` goes on with the batch behind; WorkerError is raised for a
    worker that ended, and ends the iteration.

    >>> from tinygraft import Tensor
    >>> from tinygraft.nn.data import TensorDataset
    >>> loader = DataLoader(TensorDataset(Tensor([[1.0], [2.0], [3.0]]), Tensor([0, 1, 0])), batch_size=2)
    >>> [(x.tolist(), y.tolist()) for x, y in loader]
    [([[1.0], [2.0]], [0, 1]), ([[3.0]], [0])]
    """

    device: Place
    persistent_workers: bool
    timeout: float

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        seed: int | None = None,
        device: Place = None,
        distributed: bool = False,
    ) -> None:
        self.dataset, self.device, self.collate_fn = dataset, device, collate_fn
        if collate_fn is not None and not callable(collate_fn):
            raise DTypeError(f"collate_fn is a function of the list of samples, got {type(collate_fn).__name__}")
        check_flags("DataLoader", (Flag("shuffle", 0, or_none=True),), (shuffle,), {})
        self.num_workers: int = count_of(num_workers, "num_workers", 0)
        self.seed = _seed_of(seed, generator)
        is_iterable = _is_iterable(dataset, sampler, batch_sampler)
        chosen = batch_sampler is not None
        if chosen and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ShapeError("batch_sampler makes whole batches: leave out batch_size, shuffle, sampler and drop_last")
        if batch_size is None and drop_last:
            raise ShapeError("batch_size=None gives single samples, of which drop_last drops none")
        self.batch_size: int | None = None if chosen or batch_size is None else count_of(batch_size, "batch_size")
        self.drop_last: bool = bool(drop_last)
        if distributed:
            if is_iterable or chosen or sampler is not None:
                raise ShapeError(
                    "distributed=True chooses samples by index: leave out samplers, and iterable data sets"
                )
            sampler = DistributedSampler(dataset, shuffle=bool(shuffle), seed=self.seed or 0, drop_last=drop_last)
            shuffle = None
        self.sampler: Any = None if is_iterable or chosen else _sampler_of(dataset, shuffle, sampler)
        self.batch_sampler: Any = batch_sampler
        if self.sampler is not None and self.batch_size is not None:
            self.batch_sampler = BatchSampler(self.sampler, self.batch_size, self.drop_last)
        if is_iterable and shuffle:
            raise ShapeError("an iterable data set has an order of its own, and no shuffle")
        self._job = BatchJob(dataset, collate_fn, is_iterable, batch_size, drop_last)
        self._init_workers(prefetch_factor, persistent_workers, timeout, worker_init_fn, multiprocessing_context)
        self.pin_memory: bool = bool(pin_memory)
        inner = getattr(self.batch_sampler, "sampler", self.sampler)
        samplers = [inner] if isinstance(self.batch_sampler, BatchSampler) else [inner, self.batch_sampler]
        # those without a seed of their own have this loader's, also after load_state_dict
        self._unseeded = [one for one in samplers if isinstance(one, SeededSampler) and one.seed is None]
        self._give_seed()
        self._teller = EpochTeller([*samplers, dataset if is_iterable else None])
        self._next = (0, 0)  # the epoch and the first batch of the next iteration
        self._now: tuple[int, int] | None = None  # the epoch and the batches given of one that is going on

    def _init_workers(self, prefetch: int | None, persistent: bool, timeout: float, prepare: Any, wanted: Any) -> None:
        """Check and set what concerns workers. Raises ShapeError where it is given without workers, or out of range."""
        if not self.num_workers and (prefetch is not None or persistent or timeout):
            raise ShapeError("prefetch_factor, persistent_workers and timeout are for workers, and num_workers is 0")
        if timeout < 0:
            raise ShapeError(f"timeout is a number of seconds, 0 for any, got {timeout}")
        self.prefetch_factor: int = 2 if prefetch is None else count_of(prefetch, "prefetch_factor")
        self.persistent_workers, self.timeout, self.worker_init_fn = bool(persistent), timeout, prepare
        self.multiprocessing_context: Any | None = context_of(wanted) if self.num_workers else None
        self._pool: WorkerPool | None = None

    def __len__(self) -> int:
        """Return the number of batches; of an iterable data set without a length Python's TypeError is raised."""
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        if self.sampler is not None:
            return len(self.sampler)
        size, batch = len(self.dataset), self.batch_size or 1
        return size // batch if self.drop_last else -(-size // batch)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy has, in this process or another: all but the workers and the iteration that goes on."""
        return self.__dict__ | {"_pool": None, "_now": None}

    def __repr__(self) -> str:
        workers = f", num_workers={self.num_workers}" if self.num_workers else ""
        return f"DataLoader({type(self.dataset).__name__}, batch_size={self.batch_size}{workers})"

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration that of `epoch`, from its start.

        Raises DTypeError unless an int, ShapeError below 0.
        """
        self._next, self._now = (count_of(epoch, "epoch", 0), 0), None
        self._teller.tell(self._next[0])

    @property
    def epoch(self) -> int:
        """The epoch that is going on, or else the next one."""
        return (self._now or self._next)[0]

    def state_dict(self) -> dict[str, int]:
        """Return where the loader is: {"seed", "epoch", "batch"}. Within an iteration that is after its last batch.

        All are ints; `batch` is how many batches of `epoch` are not given again. A loader without a seed has that of
        Tensor.manual_seed from here on.
        """
        epoch, batch = self._now or self._next
        return {"seed": self._fixed_seed(), "epoch": epoch, "batch": batch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next iteration go on from a state. Raises FileFormatError for what is none, and changes nothing."""
        self.check_state_dict(state)
        self.seed, epoch, batch = (int(state[name]) for name in ("seed", "epoch", "batch"))
        self._give_seed()
        self._next, self._now = (epoch, batch), None
        self._teller.tell(epoch)

    def check_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raise FileFormatError unless `state` has a seed, an epoch and a batch, ints from 0 on; change nothing."""
        values = [state.get(name) for name in ("seed", "epoch", "batch")] if isinstance(state, Mapping) else [None]
        if not all(type(value) is int and value >= 0 for value in values):
            raise FileFormatError(f"the state of a DataLoader has a seed, an epoch and a batch, got {state!r}")

    def _fixed_seed(self) -> int:
        """Return the seed; without one it has that of `order_seed` from its first use on."""
        if self.seed is None:
            self.seed = order_seed()
            self._give_seed()
        return self.seed

    def _give_seed(self) -> None:
        """Give this loader's seed to those of its samplers that had none of their own."""
        for one in self._unseeded:
            one.seed = self.seed

    def __iter__(self) -> Iterator[Any]:
        """Begin the next epoch, or go on where a loaded state stood; return its batches.

        An epoch that a script has set for a sampler comes first. The data set is read from the first batch on only.
        """
        epoch, begin, seed = *self._next, self._fixed_seed()
        if (chosen := self._teller.chosen()) is not None and chosen != epoch:
            epoch, begin = chosen, 0
        self._next, self._now = (epoch + 1, 0), (epoch, begin)
        return _Batches(self._counted(epoch, begin, self._batches(seed, epoch, begin)))

    def _counted(self, epoch: int, begin: int, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield batches, the first of which has the number `begin`, and note in `_now` how many were given.

        One that failed is given again by the state until another has come.
        """
        try:
            for number, batch in enumerate(batches, begin):
                if not isinstance(batch, _Failed):
                    self._now = (epoch, number + 1)
                yield batch
        finally:
            batches.close()  # type: ignore[attr-defined]
            if self._now is not None and self._now[0] == epoch:
                self._now = None

    def _batches(self, seed: int, epoch: int, begin: int) -> Iterator[Any]:
        """Yield the batches of an epoch from number `begin` on, made here or by workers.

        A pool whose pass raised is closed, and the next iteration starts another one; an iteration that is left keeps
        it.
        """
        self._teller.tell(epoch)  # with the first batch: another iteration may have begun after this one was made
        skipped = begin if self._job.is_iterable else 0  # what has been given is read again, and left out
        tasks = islice(enumerate(self._indices()), begin - skipped, None)
        if not self.num_workers:
            yield from _behind(self._made_here(BatchMaker(self._job, seed, epoch), tasks), skipped)
            return
        pool = self._free_pool()
        pool.is_busy = True
        try:
            pool.begin(seed, epoch)
            yield from _behind(self._made_by(pool, tasks), skipped)
        except GeneratorExit:  # the iteration was left: a pool that stays drops what it has been asked for
            raise
        except BaseException:
            self._drop(pool)
            raise
        finally:
            pool.is_busy = False
            if pool is not self._pool:
                pool.close()

    def _indices(self) -> Iterable[Any]:
        """Return the indices of each batch (one index without batches); of an iterable data set None without end."""
        found: Iterable[Any] = self.sampler if self.batch_sampler is None else self.batch_sampler
        return repeat(None) if found is None else found

    def _made_here(self, maker: BatchMaker, tasks: Iterator[tuple[int, Any]]) -> Iterator[Any]:
        """Yield the batches of `tasks` (number, indices), made in this process, or _Failed; its error gets a note."""
        for number, indices in tasks:
            try:
                if self._job.is_iterable:
                    there, batch = maker.read(number, lambda: True)
                    if not there:
                        return
                else:
                    batch = maker.make(number, indices)
            except SampleFailure as failure:
                failure.error.add_note(f"in the DataLoader, {failure.where}")
                yield _Failed(failure.error)
                continue
            yield self._finished(batch)

    def _made_by(self, pool: WorkerPool, tasks: Iterator[tuple[int, Any]]) -> Iterator[Any]:
        """Yield the batches of `tasks` in their order, or _Failed, made by the workers of `pool`.

        Each worker is asked for `prefetch_factor` batches first, and for another when one has come.
        """
        asked: list[tuple[int, int]] = []  # worker and number, in the order of the batches
        for worker, (number, indices) in zip(_turns(pool.count, self.prefetch_factor), tasks, strict=False):
            pool.ask(worker, number, indices)
            asked.append((worker, number))
        while asked:
            worker, number = asked.pop(0)
            kind, content = pool.receive(worker, number, self.timeout, self.device)
            if kind == "end":
                if not content:
                    return  # the workers read the same samples: there is nothing behind these
                asked = [one for one in asked if one[0] != worker]
                continue
            if (task := next(tasks, None)) is not None:
                pool.ask(worker, *task)
                asked.append((worker, task[0]))
            yield _Failed(content) if kind == "error" else self._finished(content)

    def _finished(self, batch: Any) -> Any:
        """Return `batch` as Tensors on the device, or _Failed."""
        try:
            return self._job.finish(batch, self.device)
        except Exception as error:  # what a data set gave may be no tensor
            return _Failed(error)

    def _free_pool(self) -> WorkerPool:
        """Return workers: those that stay, unless another iteration has them."""
        if self._pool is not None and not self._pool.is_busy:
            return self._pool
        pool = WorkerPool(self._job, self.worker_init_fn, self.num_workers, self.multiprocessing_context)
        if self.persistent_workers and self._pool is None:
            self._pool = pool
        return pool

    def _drop(self, pool: WorkerPool) -> None:
        """Close a pool, and forget it where it was to stay."""
        if pool is self._pool:
            self._pool = None
        pool.close()


DataLoader.__init__ = answered(DataLoader.__init__)  # type: ignore[method-assign]


@dataclass(frozen=True)
class _Failed:
    """In place of a batch: the error that its samples raised."""

    error: BaseException


class _Batches(Iterator[Any]):
    """What iter(loader) returns. An error in a sample is raised by `next`, and the batch behind it comes next.

    `items` yields batches and _Failed.
    """

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items

    def __next__(self) -> Any:
        """Return the next batch. Raises what its samples did, and StopIteration at the end of the epoch."""
        item = next(self._items)
        if isinstance(item, _Failed):
            del self  # the traceback of an error that is kept would keep the workers
            raise item.error
        return item


def _behind(batches: Iterator[Any], skipped: int) -> Iterator[Any]:
    """Yield the items of `batches` behind the first `skipped`, of which an error is raised: it may end the others."""
    for item in islice(batches, skipped):
        if isinstance(item, _Failed):
            raise item.error
    yield from batches


def _turns(workers: int, times: int) -> Iterator[int]:
    """Yield the numbers of `workers` workers in order, `times` times."""
    return (worker for _ in range(times) for worker in range(workers))


def _seed_of(seed: Any, generator: Any) -> int | None:
    """Return the seed; a generator's own number or its initial_seed() where one is given; None without both.

    Raises ShapeError for both or a negative number, DTypeError for what is none.
    """
    if generator is not None and seed is not None:
        raise ShapeError("give DataLoader a seed or a generator, not both")
    if generator is None:
        return None if seed is None else count_of(seed, "seed", 0)
    if isinstance(generator, int):
        return count_of(generator, "generator", 0)
    if not hasattr(generator, "initial_seed"):
        raise DTypeError(f"generator is a number, or has initial_seed(), got {type(generator).__name__}: give a seed")
    return int(generator.initial_seed())


def _sampler_of(dataset: Any, shuffle: bool | None, sampler: Iterable[Any] | None) -> Any:
    """Return `sampler` where one is given, else that of all indices. Raises ShapeError for a sampler with `shuffle`."""
    if sampler is not None and shuffle:
        raise ShapeError("a sampler has an order of its own: leave out shuffle")
    if sampler is not None and not (hasattr(sampler, "__iter__") or hasattr(sampler, "__getitem__")):
        raise DTypeError(f"a sampler can be iterated over, and gives indices of samples, got {type(sampler).__name__}")
    if sampler is not None:  # one without an index is one, too
        return sampler
    return RandomSampler(dataset) if shuffle else SequentialSampler(dataset)


def _is_iterable(dataset: Any, sampler: Any, batch_sampler: Any) -> bool:
    """Return whether a data set is only iterable.

    Raises DTypeError for a loader, for an iterator (which can be read only once) and for what has no samples, and
    ShapeError for an iterable data set with a sampler.
    """
    if isinstance(dataset, DataLoader) or (hasattr(dataset, "batch_sampler") and hasattr(dataset, "dataset")):
        raise DTypeError(
            f"DataLoader takes a data set, got {type(dataset).__name__}, a loader\n  hint: iterate over it, with "
            "map(nn.data.as_tensors, loader) for tensors of this library, or give its .dataset"
        )
    for name, one in (("dataset", dataset), ("sampler", sampler), ("batch_sampler", batch_sampler)):
        if hasattr(one, "__next__"):
            raise DTypeError(f"{name} is an iterator, which ends after one epoch: give an object that makes a new one")
    is_declared = any(kind.__name__ == "IterableDataset" for kind in type(dataset).__mro__)
    has_items = hasattr(dataset, "__getitem__") and not is_declared
    if has_items and (hasattr(dataset, "__len__") or sampler is not None or batch_sampler is not None):
        return False
    if not hasattr(dataset, "__iter__"):
        raise DTypeError(f"a data set has __len__ and __getitem__, or __iter__; {type(dataset).__name__} has neither")
    if sampler is not None or batch_sampler is not None:
        raise ShapeError("an iterable data set has an order of its own, and no sampler")
    return True
