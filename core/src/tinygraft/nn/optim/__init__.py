"""Optimizers (SGD to Muon), learning rates over time (`lr_scheduler`), and what belongs to a training step.

`optimizer` is the base class: parameters (`given_params`) in groups (`param_group`) with options (`group_option`,
`step_options`), their state (`optimizer_state`), and the step (`update`: what it knows of each parameter;
`replayed_step`: outside of a capture it is a program that is captured once).
`momentum`, `moments`, `adam_variants`, `squares`, `muon` and `lbfgs` are the optimizers by what they are made of.
`clipping` limits gradients, `averaging` has means of weights, `loss_scaler` trains in float16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.errors import closest, in_place_of, no_such_name
from tinygraft.nn.optim import lr_scheduler
from tinygraft.nn.optim.adam_variants import Adamax, NAdam, RAdam
from tinygraft.nn.optim.averaging import EMA, SWA, update_batchnorm
from tinygraft.nn.optim.clipping import clip_grad_norm, clip_grad_value
from tinygraft.nn.optim.lbfgs import LBFGS
from tinygraft.nn.optim.loss_scaler import LossScaler
from tinygraft.nn.optim.moments import LAMB, Adam, AdamW, Lion
from tinygraft.nn.optim.momentum import LARS, SGD
from tinygraft.nn.optim.muon import Muon
from tinygraft.nn.optim.optimizer import Optimizer, OptimizerGroup
from tinygraft.nn.optim.squares import Adadelta, Adagrad, RMSprop

__all__ = [
    "EMA", "LAMB", "LARS", "LBFGS", "SGD", "SWA", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Lion",
    "LossScaler", "Muon", "NAdam", "Optimizer", "OptimizerGroup", "RAdam", "RMSprop", "clip_grad_norm",
    "clip_grad_value", "lr_scheduler", "update_batchnorm",
]  # fmt: skip

_INSTEAD = {
    "SparseAdam": "Adam; the gradient of an Embedding has all rows here",
    "ASGD": "SGD, and SWA for the mean of the weights",
    "Rprop": "RMSprop, or Lion, whose steps go by the sign of a mean of gradients",
    "Adafactor": "Adam, or Lion, which has half of Adam's state",
    "GradScaler": "LossScaler, which tests for an overflow and skips the step on the device",
    "AveragedModel": "EMA, or SWA for the plain mean of the weights",
    "swa_utils": "EMA and SWA, and update_batchnorm",
}  # what is used here for optimizers of PyTorch that are not there

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Raise AttributeError with the name that was meant, as clip_grad_norm for clip_grad_norm_, or where it is."""
        here = closest(name, [*__all__, *_INSTEAD, *lr_scheduler.__all__])
        schedules = {schedule: f"it is nn.optim.lr_scheduler.{schedule}" for schedule in lr_scheduler.__all__}
        meant = in_place_of(here or name, __all__, {**schedules, **_INSTEAD})
        raise no_such_name("tinygraft.nn.optim", name, meant)
