"""Means of weights over training: EMA (exponential) and SWA (equal), and the statistics of batch norms for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import TrainingError
from tinygraft.nn.norm import BatchNorm
from tinygraft.nn.optim.given_params import as_list
from tinygraft.nn.optim.param_group import how_many
from tinygraft.nn.optim.replayed_step import OwnProgram, is_ours
from tinygraft.nn.optim.update import wide
from tinygraft.nn.state import objects_in
from tinygraft.tensor.primitives.argument_checks import as_number
from tinygraft.tensor.tensor import Tensor


class WeightAverage:
    """What EMA and SWA do; a subclass gives `_mean`, the new mean from the old one and the weights.

    `averages` are the means of `params`, each of its shape, dtype, device and layout. The first update makes them the
    weights themselves, as PyTorch's AveragedModel; before it they are the weights at the start. `count` is the number
    of updates, a tensor of shape (1,). Tensors of integers, and those with requires_grad=False (running
    statistics), have no mean: they are left out. Raises TrainingError where nothing remains.
    """

    def __init__(self, params: Iterable[Tensor]) -> None:
        tensors = as_list(params, type(self).__name__)
        given = {id(part): part for tensor in tensors for part in tensor._parts()}.values()
        self.params: list[Any] = [t for t in given if dtypes.is_float(t.dtype) and t.requires_grad is not False]
        if not self.params:
            got = how_many(len(given), "tensor")
            raise TrainingError(f"{type(self).__name__} got {got} and none of weights to average")
        self.averages: list[Tensor] = [_copy(t) for t in self.params]
        self.count: Tensor = Tensor([0.0], device=self.params[0].device, requires_grad=False)
        self._program = OwnProgram(_update_means)
        self.count.realize(*self.averages)

    def _mean(self, average: Tensor, weight: Tensor, count: Tensor) -> Tensor:
        """Return the new mean; count is the number of updates before this one."""
        raise NotImplementedError(f"{type(self).__name__} does not say its mean")

    def schedule_update(self) -> list[Tensor]:
        """Let the present weights enter the means, lazily; return what one realize() call has to compute."""
        for average, p in zip(self.averages, self.params, strict=True):
            old, weight = wide(average).to(p.device), wide(p)
            count = self.count.reshape(()).to(p.device).cast(weight.dtype)
            new = (count < 1).where(weight, self._mean(old, weight, count))
            average.assign(new.cast(average.dtype).to(average.device))
        self.count.assign(self.count + 1)
        return [*self.averages, self.count]

    def update(self) -> None:
        """Let the present weights enter the means, now: after each step of the optimizer, also within a TinyJit."""
        if is_ours(self):
            self.params[0].realize(*self.params[1:])
            self._program.run(self)
        else:
            _update_means(self, {})

    def copy_to(self) -> None:
        """Make the means the weights, in their memory, now; the means stay."""
        for average, p in zip(self.averages, self.params, strict=True):
            p.assign(_value(average, p))
        self.params[0].realize(*self.params[1:])

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """A block in which the weights are the means, such as an evaluation; after it they are what they were.

        >>> from tinygraft import Tensor, nn
        >>> p = Tensor([1.0])
        >>> ema = nn.optim.EMA([p], decay=0.5)
        >>> for value in (2.0, 4.0):
        ...     _ = p.assign(Tensor([value]))
        ...     ema.update()
        >>> with ema.swapped():
        ...     inside = p.item()
        >>> inside, p.item()
        (3.0, 4.0)
        """
        before = [_copy(p) for p in self.params]
        before[0].realize(*before[1:])
        self.copy_to()
        try:
            yield
        finally:
            for p, old in zip(self.params, before, strict=True):
                p.assign(old)
            self.params[0].realize(*self.params[1:])


class EMA(WeightAverage):
    """The mean decay*mean + (1 - decay)*weight at each update. ValueError for a decay outside [0, 1].

    The first update takes the weights as they are, as torch.optim.swa_utils.AveragedModel does.

    Source: Polyak & Juditsky, "Acceleration of stochastic approximation by averaging", 1992.
    """

    def __init__(self, params: Iterable[Tensor], decay: float = 0.999) -> None:
        if not 0 <= as_number(decay, "EMA", "decay") <= 1:
            raise ValueError(f"EMA needs a decay from 0 to 1, got {decay}")
        self.decay = decay
        super().__init__(params)

    def _mean(self, average: Tensor, weight: Tensor, count: Tensor) -> Tensor:
        """Return decay * average + (1 - decay) * weight."""
        return average + (weight - average) * (1 - self.decay)


class SWA(WeightAverage):
    """The mean of the weights of all updates, each as much as another: made at the end of each of the last epochs.

    `update_batchnorm` then measures running statistics for the means.

    Source: Izmailov et al., "Averaging weights leads to wider optima and better generalization", arXiv:1803.05407.

    >>> from tinygraft import Tensor, nn
    >>> p = Tensor([1.0])
    >>> swa = nn.optim.SWA([p])
    >>> for value in (2.0, 4.0, 9.0):
    ...     _ = p.assign(Tensor([value]))
    ...     swa.update()
    >>> swa.copy_to()
    >>> p.item()
    5.0
    """

    def _mean(self, average: Tensor, weight: Tensor, count: Tensor) -> Tensor:
        """Return the mean of `count` + 1 weights, the last of which is `weight`."""
        return average + (weight - average) / (count + 1)


def update_batchnorm(model: Any, batches: Iterable[Tensor]) -> None:
    """Measure the running statistics of the batch norms of a model anew: their mean over all batches.

    The model is called with each of the batches in training mode, without gradients; its weights stay. A model
    without batch norms is not called. Raises TrainingError without batches. As PyTorch's update_bn.

    >>> from tinygraft import Tensor, nn
    >>> norm = nn.BatchNorm(1)
    >>> nn.optim.update_batchnorm(norm, [Tensor([[1.0], [3.0]]), Tensor([[5.0], [7.0]])])
    >>> norm.running_mean.tolist(), norm.running_var.tolist()
    ([4.0], [2.0])
    """
    norms = [found for _, found in objects_in(model) if isinstance(found, BatchNorm) and found.track_running_stats]
    if not norms:
        return
    held = [(norm.running_mean, norm.running_var) for norm in norms]
    totals = [t.zeros_like().contiguous().realize() for pair in held for t in pair]
    momenta, count = [norm.momentum for norm in norms], 0
    try:
        for norm in norms:
            norm.momentum = 1.0  # so that the running ones are those of the batch
            norm.num_batches_tracked.assign(norm.num_batches_tracked.zeros_like())
        for batch in batches:
            count += 1
            with Tensor.train(), Tensor.no_grad():
                out = model(batch)
            running = [t for pair in held for t in pair]
            for total, t in zip(totals, running, strict=True):
                total.assign(total + t)
            also = [norm.num_batches_tracked for norm in norms]
            totals[0].realize(*totals[1:], *running, *also, *([out] if isinstance(out, Tensor) else []))
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
    if not count:
        raise TrainingError("update_batchnorm got no batches, and measured nothing")
    for t, total in zip([t for pair in held for t in pair], totals, strict=True):
        t.assign(total / count)
    totals[0].realize(*[t for pair in held for t in pair])


def _update_means(average: WeightAverage, plain: dict[str, Any]) -> None:
    """Do the update of `average`, now. `plain` are its attributes that make it a call of another kind."""
    first, *others = average.schedule_update()
    first.realize(*others)


def _copy(t: Tensor) -> Tensor:
    """Return the present value in memory of its own. It is lazy, and has no gradient."""
    copy = t.detach().clone().contiguous()
    copy.requires_grad = False
    return copy


def _value(average: Tensor, p: Tensor) -> Tensor:
    """Return a mean as a new value of `p`: of its dtype and on its device."""
    return average.detach().cast(p.dtype).to(p.device).clone()
