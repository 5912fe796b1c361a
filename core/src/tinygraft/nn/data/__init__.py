"""Batches for training: DataLoader, samplers, collation, and small data sets.

A data set is any object with `__len__` and `__getitem__`, or one that is only iterable; there is no base class.
Data sets of PyTorch and of Hugging Face have these methods, and are accepted as they are. `as_tensors` makes tensors of
the batches of another library's loader. docs/data.md has examples.
"""

from __future__ import annotations

from tinygraft.errors import no_such_name
from tinygraft.nn.data.collate import as_tensors, default_collate
from tinygraft.nn.data.loader import DataLoader
from tinygraft.nn.data.samplers import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from tinygraft.nn.data.subsets import ConcatDataset, Subset, TensorDataset, random_split
from tinygraft.nn.data.worker import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler",
    "ConcatDataset",
    "DataLoader",
    "DistributedSampler",
    "RandomSampler",
    "SequentialSampler",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "as_tensors",
    "default_collate",
    "get_worker_info",
    "random_split",
]

_INSTEAD = {
    "Dataset": "any object with __len__ and __getitem__ is a data set, without a base class",
    "IterableDataset": "any object with __iter__ alone is one, without a base class",
}


def __getattr__(name: str) -> None:
    """Raise an error, which says for Dataset and IterableDataset that no base class is needed."""
    hint = f"\n  hint: {_INSTEAD[name]}" if name in _INSTEAD else ""
    raise no_such_name("tinygraft.nn.data", name, hint)
