"""Data sets for DataLoader's tests. Workers import them, which they cannot do with the classes of a test file."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from tinygraft import Tensor
from tinygraft.nn.data import get_worker_info


class Drawing:
    """Samples (row, index), each with random numbers of Python, NumPy and Tensor in its row."""

    def __init__(self, size: int = 30, columns: int = 3) -> None:
        self.size, self.columns = size, columns

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        row = np.full(self.columns, index, np.float64) + random.random() + np.random.rand()
        return row + Tensor.rand(1).item(), index


class Failing(Drawing):
    """Sample 7 cannot be had: `how` is an error of Python's, one that cannot be sent, or the end of the process."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def __getitem__(self, index: int) -> Any:
        if index == 7:
            if self.how == "local":

                class LocalError(Exception):
                    pass

                raise LocalError("seven of a class that pickle does not find")
            if self.how == "killed":
                os.kill(os.getpid(), 9)
            if self.how == "exit":
                os._exit(3)
            raise KeyError("seven")
        return super().__getitem__(index)


class Slow(Drawing):
    """Each sample takes some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(1000)
        self.seconds = seconds

    def __getitem__(self, index: int) -> Any:
        time.sleep(self.seconds)
        return index


class Counting:
    """An iterable data set of the numbers below `size`, with a random fraction."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[Any]:
        for number in range(self.size):
            yield np.float64(number + random.random())


class Dividing(Counting):
    """An iterable data set that divides its samples among the workers, as PyTorch's documentation shows."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        begin, step = (info.id, info.num_workers) if info else (0, 1)
        yield from range(begin, self.size, step)


class Large:
    """Samples that go through shared memory, of a size that grows, with names."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        return {"x": np.full((64, 64 + 64 * index), index, np.float32), "name": f"row {index}"}


def pairs(samples: list[Any]) -> Any:
    """A collate_fn that returns arrays, a tensor and text."""
    indices = [index for _, index in samples]
    return np.array(indices), Tensor(indices, dtype="bfloat16"), {"of": str(indices)}


def say_seed(worker: int) -> None:
    """A worker_init_fn that leaves a file with the seeds that it sees."""
    info = get_worker_info()
    assert info is not None and info.id == worker
    with open(os.path.join(os.environ["LOADED_SETS"], f"{worker}"), "w") as file:
        file.write(f"{info.seed} {random.random()}")


class OfEpochs:
    """An iterable data set that is told the epoch, and gives it with each of two samples."""

    def __init__(self) -> None:
        self.epoch = -1

    def set_epoch(self, epoch: int) -> None:
        """What DataLoader calls before each epoch."""
        self.epoch = int(epoch)

    def __iter__(self) -> Iterator[int]:
        return iter([self.epoch, self.epoch])
