"""What makes one batch, in this process or in a worker: samples are read under the batch's own seed, and collated.

A batch depends on the seed, the epoch, its number and its indices, and not on which process makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tinygraft.nn.data.collate import as_tensors, stack_samples
from tinygraft.nn.data.seeding import batch_seed, seeded
from tinygraft.nn.data.subsets import rows_of, samples_of
from tinygraft.uop.uop import Place


@dataclass(frozen=True)
class BatchJob:
    """What all processes of a loader know. `batch_size` is None for samples that are not put into batches."""

    dataset: Any
    collate_fn: Callable[[list[Any]], Any] | None
    is_iterable: bool
    batch_size: int | None
    drop_last: bool

    def finish(self, batch: Any, device: Place) -> Any:
        """Make Tensors on `device` of a batch; what a collate_fn of the user's has made is returned as it is."""
        return batch if self.collate_fn is not None else as_tensors(batch, device)


class SampleFailure(Exception):
    """An error of a data set, `error`, with the index of its sample; of a collate_fn with those of the batch."""

    error: Exception
    where: str

    def __init__(self, error: Exception, where: str) -> None:
        super().__init__(where)
        self.error, self.where = error, where


class BatchMaker:
    """Makes the batches of one pass, the epoch `epoch`. `proceed` is called before each sample, and may raise."""

    job: BatchJob
    seed: int
    epoch: int

    def __init__(self, job: BatchJob, seed: int, epoch: int, proceed: Callable[[], None] = lambda: None) -> None:
        self.job, self.seed, self.epoch, self._proceed = job, seed, epoch, proceed
        self._rows = None if job.collate_fn is not None or job.batch_size is None else rows_of(job.dataset)
        self._read = 0  # batches of an iterable data set
        self._samples: Iterator[Any] | None = None

    def make(self, number: int, indices: Any) -> Any:
        """Return batch `number`, of the samples at `indices`. Raises SampleFailure."""
        if self._rows is not None:
            return self._collated(self._rows, list(indices), indices)
        with seeded(batch_seed(self.seed, self.epoch, number)):
            if self.job.batch_size is None:
                (sample,) = self._samples_at([indices])
                return self._whole([sample], indices)
            return self._whole(self._samples_at(indices), indices)

    def _samples_at(self, indices: Sequence[Any]) -> list[Any]:
        """Return the samples at `indices`. Raises SampleFailure with the index of the sample that raised."""
        samples: list[Any] = []
        several = hasattr(self.job.dataset, "__getitems__")
        try:
            for sample in samples_of(self.job.dataset, _counted(indices, self._proceed)):
                samples.append(sample)
        except Exception as error:
            where = f"the samples {_few(indices)}" if several else f"sample {indices[len(samples)]!r}"
            raise SampleFailure(error, where) from error
        return samples

    def read(self, number: int, may_skip: Callable[[], bool] = lambda: False) -> tuple[bool, Any]:
        """Return (True, batch) of an iterable data set, or (False, None) where it has ended. Raises SampleFailure.

        Where `may_skip`, the batches before `number` are read and left out: other workers make them. Else it is the
        next batch of the iterator.
        """
        size = self.job.batch_size or 1
        while True:
            own = number if self._read and not may_skip() else self._read
            with seeded(batch_seed(self.seed, self.epoch, own)):
                try:
                    samples = self._next(size, number)
                except SampleFailure:
                    place, self._read = self._read, self._read + 1  # the batch behind it comes next
                    if place < number and may_skip():
                        continue  # the worker whose batch it was says so
                    raise
                if not samples or (len(samples) < size and self.job.drop_last):
                    return False, None
                place, self._read = self._read, self._read + 1
                if place >= number or not may_skip():
                    return True, self._whole(samples, None)

    def _next(self, size: int, number: int) -> list[Any]:
        """Return the next `size` samples of an iterable data set, fewer at its end. Raises SampleFailure."""
        samples: list[Any] = []
        try:
            if self._samples is None:
                self._samples = iter(self.job.dataset)
            for sample in islice(self._samples, size):
                self._proceed()
                samples.append(sample)
        except Exception as error:
            raise SampleFailure(error, f"sample {self._read * size + len(samples)} of the iteration") from error
        return samples

    def _whole(self, samples: list[Any], indices: Any) -> Any:
        """Collate samples by the job's collate_fn, else by `stack_samples`; without a batch size return the one sample.

        `indices` are for the error, None where they are not known.
        """
        alone = self.job.batch_size is None
        if self.job.collate_fn is None:
            return samples[0] if alone else self._collated(stack_samples, samples, indices)
        return self._collated(self.job.collate_fn, samples[0] if alone else samples, indices)

    def _collated(self, collate: Callable[[Any], Any], samples: Any, indices: Any) -> Any:
        """Return `collate(samples)`. Raises SampleFailure, with the indices of the batch, for what it raises."""
        try:
            return collate(samples)
        except Exception as error:
            what = "a batch" if indices is None else f"the batch of the samples {_few(indices)}"
            raise SampleFailure(error, what) from error


def _counted(indices: Sequence[Any], proceed: Callable[[], None]) -> Sequence[Any]:
    """Return the indices; they call `proceed` as they are gone through one by one."""
    return _Proceeding(indices, proceed)


class _Proceeding(list[Any]):
    """A list that calls a function before each element of an iteration."""

    def __init__(self, items: Sequence[Any], proceed: Callable[[], None]) -> None:
        super().__init__(items)
        self._proceed = proceed

    def __iter__(self) -> Iterator[Any]:
        for item in super().__iter__():
            self._proceed()
            yield item


def _few(indices: Any) -> str:
    """Return indices as text: at most eight of them, and how many there are."""
    found = list(indices) if isinstance(indices, (list, tuple)) else [indices]
    return ", ".join(map(repr, found[:8])) + (f", ... ({len(found)} in all)" if len(found) > 8 else "")
