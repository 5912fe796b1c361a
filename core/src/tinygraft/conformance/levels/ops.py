"""Level ops: what kernels compute, from single ops to whole expressions."""

from __future__ import annotations

from tinygraft.conformance.levels.ops_kernels import Kernels
from tinygraft.conformance.levels.ops_tensors import Tensors
from tinygraft.conformance.levels.ops_values import Values


class OpsLevel(Tensors, Kernels, Values):
    """The tests of level ops. pytest runs those of the last base first: an op before the expressions that use it."""
