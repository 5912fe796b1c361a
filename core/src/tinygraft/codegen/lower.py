"""Codegen: from a Kernel to its linear form for a Target, through a list of passes.

A pass is a pure function from a kernel graph to a kernel graph. After each one the graph is checked against the spec
(SPEC=1) and reported as an event. Codegen reads the Target and does not depend on which device it describes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinygraft import events
from tinygraft.codegen.action import Action
from tinygraft.codegen.apply import STREAM, apply_actions
from tinygraft.codegen.collapse import collapse
from tinygraft.codegen.cost import cost
from tinygraft.codegen.cuts import cut
from tinygraft.codegen.heuristics import choose
from tinygraft.codegen.linearise import linearise
from tinygraft.codegen.options import Options
from tinygraft.codegen.stream import stream
from tinygraft.codegen.sums import shorten
from tinygraft.codegen.transforms import with_gaps
from tinygraft.errors import HookError
from tinygraft.hooks.manager import here as hooks
from tinygraft.hooks.requests import CodegenPass
from tinygraft.rules.decompose import decompose
from tinygraft.rules.narrow import in_memory
from tinygraft.target import Target
from tinygraft.uop import graph_spec, hazards
from tinygraft.uop.linear import scratch_of
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.sizes import high, sint
from tinygraft.uop.stages import Kernel, Linear, Param, Signature
from tinygraft.uop.uop import UOp, postorder


@dataclass(frozen=True, slots=True)
class PassState:
    """A kernel between two passes, with the actions applied so far."""

    sink: UOp
    actions: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass of codegen: its name, and the function that it is."""

    name: str
    run: Callable[[PassState, Target, Options], PassState]


def collapse_loops(state: PassState, target: Target, options: Options) -> PassState:
    """Return the state with adjacent loops over contiguous memory merged; as it is with `options.noopt`."""
    return state if options.noopt else PassState(collapse(state.sink, bool(target.grid_dims)), state.actions)


def cut_loops(state: PassState, target: Target, options: Options) -> PassState:
    """Return the state with loops cut where conditions on them change; as it is with `options.noopt`."""
    return state if options.noopt else PassState(cut(state.sink, target), state.actions)


def apply_transforms(state: PassState, target: Target, options: Options) -> PassState:
    """Return the state with the actions of `options` applied, or, where these are None, those of the heuristics.

    Loops get their kind of range here. With `options.noopt` the state is returned as it is. Raises ActionError for
    actions of `options` that the kernel forbids.
    """
    if options.noopt:
        return state
    if options.actions is None:
        return PassState(*choose(state.sink, target))
    # STREAM is a pass of its own and adds itself to the list where it marked a store
    return PassState(
        apply_actions(with_gaps(state.sink), options.actions, target), tuple(a for a in options.actions if a != STREAM)
    )


def shorten_sums(state: PassState, target: Target, options: Options) -> PassState:
    """Return the state with long sums of floats in blocks: with NOOPT=1 too, as this is for accuracy and not speed."""
    return PassState(shorten(state.sink, target), state.actions)


def decompose_ops(state: PassState, target: Target, options: Options) -> PassState:
    """Return the state with ops and dtypes that the Target lacks written in terms of those it has."""
    return PassState(decompose(state.sink, target), state.actions)


def stream_outputs(state: PassState, target: Target, options: Options) -> PassState:
    """Return the state with the stores of large outputs marked as non-temporal, and STREAM added to its actions.

    Such stores bypass the caches. The state is returned as it is where there are none, with `options.noopt`, and where
    `options.actions` are given without STREAM.
    """
    if options.noopt or (options.actions is not None and STREAM not in options.actions):
        return state
    sink, count = stream(state.sink, target)
    return PassState(sink, (*state.actions, STREAM)) if count else state


PIPELINE = (
    Pass("collapse loops", collapse_loops),  # first: actions are chosen for, and name, the loops that remain
    Pass("cut loops", cut_loops),  # before the actions, after collapse: it merges what no condition separates
    Pass("apply transforms", apply_transforms),
    Pass("shorten sums", shorten_sums),  # after the actions, which expect a sum over one loop
    Pass("stream outputs", stream_outputs),  # after the actions: only vectors are streamed
    Pass("decompose", decompose_ops),  # last: it multiplies the nodes that every later pass would visit
)


def _with_contributed(target: Target) -> list[Pass]:
    """Return the passes for `target`: the pipeline with those of hook plugins, first and before its last pass."""
    before, after = ([_contributed(one) for one in hooks.passes(stage, target)] for stage in ("kernel", "transformed"))
    return [*before, *PIPELINE[:-1], *after, PIPELINE[-1]]


def _contributed(one: CodegenPass) -> Pass:
    """Return the pass of a hook plugin as an entry of the pipeline, with its errors as HookError.

    SystemExit too: a plugin that calls `sys.exit` fails as a plugin does, and does not end the program.
    """

    def run(state: PassState, target: Target, options: Options) -> PassState:
        """Return the state after the plugin's pass on its kernel. Raises HookError where it raises or gives no SINK."""
        what = f"the codegen pass {one.id!r} of {hooks.owner_of(one)}"
        try:
            sink = one.run(state.sink, target)
        except (Exception, SystemExit) as error:
            raise HookError(f"{what} raised {type(error).__name__}: {error}") from error
        if not isinstance(sink, UOp) or sink.op is not Ops.SINK:
            raise HookError(f"{what} gave {type(sink).__name__}, not the SINK of a kernel")
        return PassState(sink, state.actions)

    return Pass(one.id, run)


def to_linear(kernel: Kernel, target: Target, options: Options = Options(), name: str = "") -> Linear:  # noqa: B008
    """Return the linear form of a kernel for a Target. Raises ActionError for an action that the kernel forbids.

    `name` is the kernel's; "" stands for `kernel_name`. Passes of hook plugins run where `options.passes` has any, and
    raise HookError where they fail. Raises GraphError where a load would come after the store that overwrites it, and,
    with SPEC=1, where a pass breaks the spec. Reports each pass, and the result, as an event.
    """
    name = name or kernel_name(kernel)
    state = PassState(kernel.sink)
    graph_spec.check(graph_spec.KERNEL, state.sink, "schedule")
    for step in _with_contributed(target) if options.passes else PIPELINE:
        state = step.run(state, target, options)
        graph_spec.check(graph_spec.KERNEL, state.sink, f"pass {step.name!r}")
        if events.active:
            events.stage(f"pass: {step.name}", state.sink, name)
    uops = tuple(linearise(state.sink, target.fused_sums))
    graph_spec.check(graph_spec.LINEAR, uops, "pass 'linearise'")
    # always, not only with SPEC: a load after the store that overwrites it would be a wrong result without an error
    hazards.check(uops, name, "pass 'linearise'")
    hazards.check_order(kernel.sink, uops, name)
    # the cost is of the kernel as scheduled: what a transform adds, as elements computed again, is no useful work
    linear = Linear(
        name, uops, _signature(kernel, uops, target), target, tuple(map(str, state.actions)), cost(kernel.sink)
    )
    if events.active:
        events.stage("linear", linear, name)
    return linear


def _signature(kernel: Kernel, uops: tuple[UOp, ...], target: Target) -> Signature:
    """Return what a launch of `uops` requires: buffers, variables, grid, threads, scratch memory.

    Buffers come from the kernel as it was scheduled, in order of slots, and so remain arguments where a pass has
    removed their last use. Variables are only those that `uops` still read, in order of names.
    """
    params: dict[int, Param] = {}
    written = {store.src[0].arg.slot for store in kernel.sink.src}
    for node in postorder(kernel.sink):
        if node.op is Ops.PARAM:
            params[node.arg.slot] = Param(in_memory(node.dtype, target), node.arg.size, node.arg.slot in written)
    variables = tuple(sorted(u.arg.name for u in uops if u.op is Ops.VARIABLE))
    grid: list[sint] = [1, 1, 1]
    threads = 1
    for u in uops:
        if u.op is Ops.RANGE and u.arg.kind is AxisKind.GRID:
            size = u.src[0]
            grid[u.arg.dim] = size.arg if size.op is Ops.CONST else size
        elif u.op is Ops.RANGE and u.arg.kind is AxisKind.THREAD:
            threads = high(u.src[0].hi)
    chunked = any(u.op is Ops.RANGE and u.arg.kind is AxisKind.PARALLEL for u in uops)
    ordered = tuple(params[slot] for slot in sorted(params))
    return Signature(ordered, variables, (grid[0], grid[1], grid[2]), threads, chunked, scratch_of(uops)[1])


def kernel_name(kernel: Kernel) -> str:
    """Return a readable name of a kernel: E for elementwise or r for a reduction, and the sizes of its loops.

    These are at most eight, outermost first, with s for a symbolic one; 1 for a kernel without loops. Kernels that
    differ may have the same name.

    >>> from tinygraft.dtype import dtypes
    >>> from tinygraft.uop.ops import ParamArg
    >>> p, i = UOp(Ops.PARAM, dtypes.float, (), ParamArg(0, 25)), UOp.range(25, 0)
    >>> kernel_name(Kernel(UOp(Ops.SINK, src=(UOp(Ops.STORE, src=(p, i, UOp.const(dtypes.float, 3.0))),))))
    'E_25'
    """
    nodes = postorder(kernel.sink)
    sizes = {n.arg.axis: n.src[0] for n in nodes if n.op is Ops.RANGE}
    parts = [str(size.arg) if size.op is Ops.CONST else "s" for _, size in sorted(sizes.items())]
    kind = "r" if any(n.op is Ops.REDUCE for n in nodes) else "E"
    return "_".join([kind, *parts[:8]]) if parts else f"{kind}_1"
