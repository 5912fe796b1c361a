"""DataLoader without workers: order, batches, arguments and its state."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from loaded_sets import Counting, Drawing, Failing
from tinygraft import Tensor, nn
from tinygraft.errors import DTypeError, FileFormatError, NumberOutOfRange, ShapeError
from tinygraft.nn.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)


def values(batches: Any) -> list[Any]:
    """Batches as lists."""
    return [tuple(part.tolist() for part in batch) if isinstance(batch, tuple) else batch.tolist() for batch in batches]


def test_rows_of_tensors_come_in_order_and_keep_their_dtype() -> None:
    """A tensor, an array and a TensorDataset; bfloat16 too, which NumPy does not have."""
    x = Tensor(np.arange(10, dtype=np.float32).reshape(5, 2)).cast("bfloat16")
    y = np.arange(5, dtype=np.int16)
    (a, b), *_, (last, _) = list(DataLoader(TensorDataset(x, y), batch_size=2))
    assert (a.dtype.name, a.tolist(), b.dtype.name, b.tolist()) == ("bfloat16", [[0, 1], [2, 3]], "short", [0, 1])
    assert last.shape == (1, 2)
    assert values(DataLoader(y, batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert values(DataLoader(Tensor([1, 2, 3]), batch_size=2)) == [[1, 2], [3]]
    assert [index for _, index in DataLoader(Drawing(3), batch_size=None)] == [0, 1, 2]


def test_a_seed_gives_one_order_for_each_epoch() -> None:
    """Equal seeds give equal epochs; another epoch has another order; manual_seed is the default."""
    first, second = (DataLoader(np.arange(20), batch_size=6, shuffle=True, seed=5) for _ in range(2))
    epochs = [values(first), values(first)]
    assert epochs == [values(second), values(second)] and epochs[0] != epochs[1]
    assert all(sorted(itertools.chain(*epoch)) == list(range(20)) for epoch in epochs)
    second.set_epoch(1)
    assert values(second) == epochs[1]
    Tensor.manual_seed(5)
    assert values(DataLoader(np.arange(20), batch_size=6, shuffle=True)) == epochs[0]


def test_the_random_numbers_of_the_caller_go_on() -> None:
    """What a data set draws is not missing from the numbers of the program."""

    def drawn() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), Tensor.rand(1).item()

    def seed() -> None:
        random.seed(1)
        np.random.seed(1)
        Tensor.manual_seed(1)

    seed()
    expected = drawn()
    seed()
    list(DataLoader(Drawing(8), batch_size=4, seed=0))
    assert drawn() == expected


def test_loaders_without_a_seed_have_other_orders() -> None:
    """One that is made anew for each epoch too; after manual_seed they are the same again, and so are random splits."""
    x = np.arange(40)

    def orders() -> list[Any]:
        Tensor.manual_seed(3)
        found = [values(DataLoader(x, batch_size=40, shuffle=True)) for _ in range(3)]
        return [*found, *(list(part.indices) for part in random_split(x, [20, 20]))]

    first = orders()
    assert first == orders() and len({str(order) for order in first}) == 5
    assert first[0] == values(DataLoader(x, batch_size=40, shuffle=True, seed=3))
    Tensor.manual_seed(3)
    numbers = Tensor.rand(4).tolist()
    Tensor.manual_seed(3)
    list(DataLoader(x, shuffle=True))
    assert Tensor.rand(4).tolist() == numbers


def test_the_values_depend_on_seed_and_epoch_alone() -> None:
    """Not on what was drawn before."""
    batches = values(DataLoader(Drawing(8), batch_size=4, seed=3))
    Tensor.rand(3).realize()
    random.random()
    loader = DataLoader(Drawing(8), batch_size=4, seed=3)
    assert values(loader) == batches
    assert values(loader) != batches


def test_an_iterable_data_set() -> None:
    """Batches of it; the last is shorter, or left out."""
    assert [len(b.tolist()) for b in DataLoader(Counting(7), batch_size=3)] == [3, 3, 1]
    assert [len(b.tolist()) for b in DataLoader(Counting(7), batch_size=3, drop_last=True)] == [3, 3]
    with pytest.raises(TypeError, match="has no len"):
        len(DataLoader(Counting(7)))


def test_length() -> None:
    """The number of batches, with each way of choosing them."""
    data = np.arange(7)
    assert len(DataLoader(data, 3)) == 3 and len(DataLoader(data, 3, drop_last=True)) == 2
    assert len(DataLoader(data, batch_size=None)) == 7
    assert len(DataLoader(data, batch_sampler=[[1, 2], [3]])) == 2
    assert values(DataLoader(data, batch_sampler=[[1, 2], [3]])) == [[1, 2], [3]]
    assert len(DataLoader(data, 2, sampler=WeightedRandomSampler([1] * 7, 5, seed=0))) == 3


def test_a_sampler_is_told_the_epoch() -> None:
    """The order of a DistributedSampler changes from epoch to epoch without a call by the user."""
    loader = DataLoader(np.arange(16), 8, sampler=DistributedSampler(range(16), 2, 0))
    assert values(loader) != values(loader)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("data", [Drawing(10), np.arange(10.0)])
def test_a_state_goes_on_within_an_epoch(data: Any, shuffled: bool) -> None:
    """Behind its last batch, and then with the next epoch."""
    loader = DataLoader(data, 3, shuffle=shuffled, seed=9)
    list(loader)
    passing = iter(loader)
    next(passing)
    state = loader.state_dict()
    assert state == {"seed": 9, "epoch": 1, "batch": 1}
    rest = values(passing), values(loader)
    again = DataLoader(data, 3, shuffle=shuffled, seed=1)
    again.load_state_dict(state)
    assert (values(again), values(again)) == rest
    assert again.state_dict() == {"seed": 9, "epoch": 3, "batch": 0}
    with pytest.raises(FileFormatError, match=r"^the state of a DataLoader has a seed, an epoch and a batch, got"):
        again.load_state_dict({})


def test_an_iterable_data_set_goes_on_too() -> None:
    """What has been given is read again and left out."""
    loader = DataLoader(Counting(10), 3, seed=9)
    passing = iter(loader)
    next(passing)
    again = DataLoader(Counting(10), 3, seed=1)
    again.load_state_dict(loader.state_dict())
    assert values(again) == values(passing)


def test_a_checkpoint_has_it(tmp_path: Any) -> None:
    """Among its other parts."""
    loader = DataLoader(np.arange(10), 3, shuffle=True, seed=2)
    list(loader)
    nn.state.save_checkpoint(tmp_path / "a", data=loader, step=1)
    again = DataLoader(np.arange(10), 3, shuffle=True, seed=0)
    nn.state.load_checkpoint(tmp_path / "a", data=again)
    assert values(again) == values(loader)


def test_an_error_names_the_sample() -> None:
    """As a note of the error itself."""
    with pytest.raises(KeyError) as caught:
        list(DataLoader(Failing("key"), batch_size=4))
    assert caught.value.args == ("seven",) and caught.value.__notes__ == ["in the DataLoader, sample 7"]


def test_next_goes_on_behind_an_error() -> None:
    """With the batches that PyTorch gives; the state gives the failed one again until another has come."""
    loader = DataLoader(Failing("key"), batch_size=4, seed=1)
    whole = values(DataLoader(Drawing(), batch_size=4, seed=1))
    passing = iter(loader)
    assert values([next(passing)]) == whole[:1]
    with pytest.raises(KeyError):
        next(passing)
    assert loader.state_dict()["batch"] == 1
    assert values([next(passing)]) == whole[2:3] and loader.state_dict()["batch"] == 3
    assert values(passing) == whole[3:]


class Breaking:
    """An iterable data set whose iterator raises for its fifth sample and goes on."""

    def __iter__(self) -> Any:
        return Breaking.Reader()

    class Reader:
        """Counts to 12."""

        def __init__(self) -> None:
            self.count = 0

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            self.count += 1
            if self.count == 5:
                raise ValueError("the fifth")
            if self.count > 12:
                raise StopIteration
            return self.count


def test_next_goes_on_with_what_an_iterator_gives_behind_an_error() -> None:
    """A generator that raised has ended, and so has the epoch; another iterator goes on."""
    passing = iter(DataLoader(Breaking(), batch_size=4))
    assert next(passing).tolist() == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="the fifth"):
        next(passing)
    assert [batch.tolist() for batch in passing] == [[6, 7, 8, 9], [10, 11, 12]]


def test_what_is_no_tensor_is_an_error_of_its_batch() -> None:
    """The one behind it comes."""
    passing = iter(DataLoader([0, 2**70, 1], batch_size=1))
    assert next(passing).tolist() == [0]
    with pytest.raises(NumberOutOfRange):
        next(passing)
    assert next(passing).tolist() == [1]


def test_a_collate_fn_has_the_last_word() -> None:
    """What it returns comes as it is; its errors name the samples."""
    assert list(DataLoader([1, 2, 3], 2, collate_fn=sum)) == [3, 3]
    with pytest.raises(ZeroDivisionError) as caught:
        list(DataLoader([1, 2, 3], 2, collate_fn=lambda samples: 1 / 0))
    assert caught.value.__notes__ == ["in the DataLoader, the batch of the samples 0, 1"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"batch_size": 0}, ShapeError, "batch_size is an integer of at least 1, got 0"),
        ({"batch_size": 2.0}, DTypeError, "batch_size is an integer of at least 1, got 2.0"),
        ({"num_workers": -1}, ShapeError, "num_workers is an integer of at least 0, got -1"),
        ({"shuffle": True, "sampler": [1]}, ShapeError, "a sampler has an order of its own: leave out shuffle"),
        (
            {"batch_sampler": [[1]], "shuffle": True}, ShapeError,
            "batch_sampler makes whole batches: leave out batch_size, shuffle, sampler and drop_last",
        ),
        (
            {"batch_size": None, "drop_last": True}, ShapeError,
            "batch_size=None gives single samples, of which drop_last drops none",
        ),
        (
            {"prefetch_factor": 2}, ShapeError,
            "prefetch_factor, persistent_workers and timeout are for workers, and num_workers is 0",
        ),
        ({"sampler": iter([1])}, DTypeError,
         "sampler is an iterator, which ends after one epoch: give an object that makes a new one"),
        ({"dataset": 3}, DTypeError, "a data set has __len__ and __getitem__, or __iter__; int has neither"),
        ({"dataset": Counting(3), "shuffle": True}, ShapeError,
         "an iterable data set has an order of its own, and no shuffle"),
        ({"dataset": DataLoader([1])}, DTypeError,
         "DataLoader takes a data set, got DataLoader, a loader\n  hint: iterate over it, with "
         "map(nn.data.as_tensors, loader) for tensors of this library, or give its .dataset"),
        ({"generator": "x"}, DTypeError, "generator is a number, or has initial_seed(), got str: give a seed"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """Each with its sentence."""
    with pytest.raises(error) as caught:
        DataLoader(**{"dataset": [1, 2, 3], **arguments})
    assert str(caught.value) == message


def test_names_that_are_elsewhere() -> None:
    """A base class is not needed; the loader is not in nn itself."""
    with pytest.raises(AttributeError, match="hint: any object with __len__ and __getitem__ is a data set, without"):
        nn.data.Dataset  # noqa: B018
    with pytest.raises(AttributeError, match=r"hint: it is tinygraft\.nn\.data\.DataLoader"):
        nn.DataLoader  # noqa: B018


def test_data_sets_of_hugging_face_by_their_protocol() -> None:
    """A look-alike with its documented methods: rows as dicts, several rows by __getitems__."""

    class Rows:
        columns = {"text": ["a", "b", "c"], "label": [0, 1, 2], "x": np.eye(3)}

        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> Any:
            return {name: column[index] for name, column in self.columns.items()}

        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [self[index] for index in indices]

    first = next(iter(DataLoader(Rows(), batch_size=2)))
    assert first["text"] == ["a", "b"] and first["label"].tolist() == [0, 1] and first["x"].shape == (2, 3)


def test_a_sampler_without_an_index_gives_no_batch() -> None:
    """It has a length of 0, and is a sampler all the same."""
    assert values(DataLoader(range(6), sampler=[])) == []
    assert values(DataLoader(range(6), 2, sampler=SubsetRandomSampler([]))) == []
    assert len(DataLoader(range(6), batch_sampler=[])) == 0


def test_two_iterations_at_once_are_two_epochs() -> None:
    """Each has the order of its own, though both were made before the first batch."""
    alone = DataLoader(range(6), 2, shuffle=True, seed=3)
    epochs = [values(alone), values(alone)]
    both = DataLoader(range(6), 2, shuffle=True, seed=3)
    pairs = [(first.tolist(), second.tolist()) for first, second in zip(both, both, strict=True)]
    assert [list(one) for one in zip(*pairs, strict=True)] == epochs


@pytest.mark.parametrize(
    "make",
    [
        lambda: DataLoader(range(6), 2, shuffle=True),
        lambda: DataLoader(range(6), 2, sampler=RandomSampler(range(6), seed=7)),
        lambda: DataLoader(range(6), 2, sampler=RandomSampler(range(6), seed=7), seed=3),
        lambda: DataLoader(range(6), 2, sampler=SubsetRandomSampler(range(6))),
        lambda: DataLoader(range(6), 2, sampler=WeightedRandomSampler([1] * 6, 6)),
        lambda: DataLoader(range(6), batch_sampler=BatchSampler(RandomSampler(range(6)), 2)),
    ],
)
def test_a_state_goes_on_with_the_seed_of_any_sampler(make: Any) -> None:
    """Of the loader, or of the sampler where it has one; another manual_seed changes nothing."""
    Tensor.manual_seed(1)
    first = make()
    passing = iter(first)
    next(passing)
    state, rest, after = first.state_dict(), values(passing), values(first)
    Tensor.manual_seed(2)
    second = make()
    second.load_state_dict(state)
    assert (values(second), values(second)) == (rest, after)


def test_an_epoch_that_a_script_chooses_for_its_sampler_is_that_of_the_loader() -> None:
    """As scripts of PyTorch do; the last one to say so is right, and the same number twice is the same order twice."""
    sampler = DistributedSampler(range(20), 1, 0)
    loader = DataLoader(range(20), 20, sampler=sampler)
    orders = []
    for epoch in (5, 6, 0, 0):
        sampler.set_epoch(epoch)
        expected = [list(sampler)]
        assert values(loader) == expected and loader.epoch == epoch + 1
        orders.append(expected)
    assert orders[2] == orders[3] != values(loader)  # nothing was said: the next epoch
    loader.set_epoch(6)
    assert values(loader) == orders[1]
    loader.load_state_dict({"seed": 0, "epoch": 5, "batch": 0})
    sampler.set_epoch(6)
    assert values(loader) == orders[1]


def test_distributed_takes_no_sampler() -> None:
    """It has one, of all ranks; in a program of one rank that has all samples."""
    loader = DataLoader(np.arange(5), 2, shuffle=True, seed=3, distributed=True)
    assert sorted(np.concatenate([batch.numpy() for batch in loader]).tolist()) == [0, 1, 2, 3, 4]
    assert [batch.tolist() for batch in DataLoader(np.arange(3), 2, distributed=True)] == [[0, 1], [2]]
    for given in ({"sampler": [0, 1]}, {"batch_sampler": [[0], [1]]}):
        with pytest.raises(ShapeError, match="distributed=True chooses samples by index"):
            DataLoader(np.arange(5), distributed=True, **given)  # type: ignore[arg-type]


def test_an_unknown_argument_is_answered() -> None:
    """With the one that was meant, as of layers and optimizers."""
    with pytest.raises(TypeError) as error:
        DataLoader([1, 2], batchsize=2)  # type: ignore[call-arg]
    said = "DataLoader() got an unexpected keyword argument 'batchsize'\n  hint: did you mean 'batch_size'?"
    assert str(error.value) == said
