"""The judge: what tinygraft gives for each sample of PyTorch's operator database, beside what PyTorch gives.

`judge(op)` looks for an operator's name under Tensor and holds it to its samples in several dtypes: values and dtypes,
in float64 and complex128 gradients too, and what must be refused: what PyTorch refuses, and what it warns of because it
drops imaginary parts. A refusal counts where `refusals.py` says that it is one. Python's integers become int64, as
PyTorch's do. A Verdict says how many samples were right and what was wrong with the others.
"""

from __future__ import annotations

import functools
import random
import signal
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_methods_invocations import op_db

import open_results
from differences import CLOSE, difference
from reasons import read
from refusals import missing
from tinygraft import Context, Tensor
from torch_calls import Left, call, convert, find

DTYPES = {
    "float32": torch.float32, "float64": torch.float64, "int64": torch.int64, "bool": torch.bool,
    "complex128": torch.complex128,
}  # fmt: skip
GRADIENTS = {"float64": "gradient", "complex128": "complex gradient"}  # what is asked with the values of a dtype
GRADIENT_CLOSE = (1e-5, 1e-6)
SECONDS = 20  # the most processor time that one sample may take
BATCH = 24  # samples that are computed together
OTHER = {entry.pattern for entry in read().other}  # what has the name of another function here
FIRST = 10  # where only some samples are asked, how many are made for each of them
KINDS = (*DTYPES, *GRADIENTS.values(), "error")


torch.set_num_threads(1)  # samples are small
DROPS = "discards the imaginary part"  # what PyTorch's warning says where it casts complex numbers to real ones


@dataclass
class Verdict:
    """How an operator did: of each kind how many samples were right, of how many, and what was wrong."""

    op: str
    found: str | None = None
    right: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    wrong: list[tuple[str, int, str]] = field(default_factory=list)

    def note(self, kind: str, number: int, problem: str | None) -> None:
        """Count one sample."""
        self.asked[kind] = self.asked.get(kind, 0) + 1
        self.right[kind] = self.right.get(kind, 0) + (problem is None)
        if problem is not None:
            self.wrong.append((kind, number, problem))

    @property
    def failing(self) -> list[str]:
        """The kinds of which some sample was wrong."""
        return [kind for kind in KINDS if self.right.get(kind, 0) < self.asked.get(kind, 0)]


def name_of(op: Any) -> str:
    """An operator's name in the report: with its variant, where it has one."""
    return f"{op.name}:{op.variant_test_name}" if op.variant_test_name else str(op.name)


def operators() -> dict[str, Any]:
    """Every operator of the database by its name."""
    return {name_of(op): op for op in op_db}


def _draws(op: Any) -> bool:
    """Whether values are random or whatever memory held: then shapes are compared and no values."""
    packet = getattr(torch.ops.aten, op.name.rpartition(".")[2], None)
    overloads = [getattr(packet, name) for name in packet.overloads()] if packet is not None else []
    drawn = any(torch.Tag.nondeterministic_seeded in overload.tags for overload in overloads)
    seeded = "wrapper_set_seed" in getattr(
        getattr(op.op, "__code__", None), "co_names", ()
    )  # PyTorch's own tests do it
    return drawn or seeded or "empty" in op.name


def _has_gradient(op: Any, dtype: torch.dtype) -> bool:
    """Whether gradients are compared: where PyTorch does not leave out its own test of them."""
    found = op.get_decorators("TestBwdGradients", "test_fn_grad", "cpu", dtype, {})
    left_out = ("skip.<locals>.decorator", "expectedFailure")
    left = any(getattr(d, "__qualname__", "") in left_out for d in found)
    return dtype in op.supported_backward_dtypes("cpu") and not left


@contextmanager
def _seconds(limit: int) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TimeoutError(f"more than {limit} seconds")

    before = signal.signal(signal.SIGPROF, late)  # of processor time, whatever else the machine is doing
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _seed(op: Any, kind: str) -> None:
    seed = zlib.crc32(f"{name_of(op)} {kind}".encode())
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)
    Tensor.manual_seed(seed % 1000)


def samples(op: Any, kind: str, most: int | None) -> list[tuple[int, Any]]:
    """(number, sample) in a dtype; no more than `most`, spread over the first ones."""
    _seed(op, kind)
    if kind == "complex128" and most is not None:
        most = (most + 1) // 2  # what is asked of it with other dtypes is not asked as often again
    grads = kind in GRADIENTS and op.supports_autograd
    made = op.sample_inputs("cpu", DTYPES[kind], requires_grad=grads, set_seed=False)
    every = list(enumerate(made if most is None else islice(made, most * FIRST)))
    return _spread(every, most, f"{name_of(op)} {kind}")


def _spread(every: list[Any], most: int | None, salt: str) -> list[Any]:
    if most is None or len(every) <= most:
        return every
    chosen = random.Random(zlib.crc32(salt.encode())).sample(range(len(every)), most)
    return [every[i] for i in sorted(chosen)]


def _leaves(value: Any) -> list[Any]:
    """The values of a nested result, in order."""
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in _leaves(v)]
    return list(_leaves(list(value.values()))) if isinstance(value, dict) else [value]


@dataclass
class Case:
    """One sample, asked of both."""

    number: int
    theirs: list[Any]
    ours: list[Any] = field(default_factory=list)
    their_gradients: list[Any] = field(default_factory=list)
    our_gradients: list[Any] = field(default_factory=list)
    problem: str | None = None
    error: Exception | None = None
    drops: bool = False
    stand: Callable[[Any, Any], bool] = lambda values, places: False  # whether values stand at places that differ
    exact: Callable[[], list[Any]] = list  # PyTorch's results where its float32 inputs are float64
    seen: Callable[[Sequence[Any]], list[Any]] = list  # what of gradients is compared

    def tensors(self) -> list[Tensor]:
        """All of ours that have to be computed."""
        return [t for t in (*self.ours, *self.our_gradients) if isinstance(t, Tensor)]


def ask(op: Any, number: int, sample: Any, grads: bool) -> Case | None:
    """Both results for a sample, ours not computed yet; None where it cannot be asked here."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.set_warn_always(True)
        try:
            theirs = _called(op, sample)
        except Exception:
            return None  # not a sample of this build of PyTorch
        finally:
            torch.set_warn_always(False)
    shown = open_results.shown(op, sample)
    case = Case(number, _leaves(shown(theirs)), drops=any(DROPS in str(warning.message) for warning in said))
    if any(isinstance(t, torch.Tensor) and t.layout is not torch.strided for t in case.theirs):
        return None
    case.stand = functools.partial(open_results.stand_there, op, sample)
    case.exact = lambda: _leaves(shown(_called(op, sample.transform(_wide))))
    seen: dict[int, Tensor] = {}
    try:
        with _seconds(SECONDS):
            ours = call(op, sample, seen, grads)
            case.ours = _leaves(shown(ours))
    except Left:
        return None
    except Exception as error:
        case.problem, case.error = _said(error), error
        return case
    if grads and not case.drops:
        _ask_gradients(case, op, sample, theirs, ours, seen)
    return case


def _called(op: Any, sample: Any) -> Any:
    return op(sample.input, *sample.args, **sample.kwargs)


def _wide(value: Any) -> Any:
    """Return a float32 tensor of a sample in float64, anything else as it is."""
    return value.double() if isinstance(value, torch.Tensor) and value.dtype is torch.float32 else value


def _ask_gradients(case: Case, op: Any, sample: Any, theirs: Any, ours: Any, seen: dict[int, Tensor]) -> None:
    process = sample.output_process_fn_grad or (lambda x: x)
    tensors = _tensors((sample.input, sample.args, sample.kwargs))
    inputs = [t for t in tensors if t.requires_grad and id(t) in seen]
    every = _leaves(process(theirs))
    places = [i for i, t in enumerate(every) if isinstance(t, torch.Tensor) and t.requires_grad]
    outputs = [every[i] for i in places]
    if not inputs or not outputs:
        return
    weights = [torch.randn(t.shape, dtype=t.dtype) for t in outputs]
    found = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
    case.seen = open_results.seen(op, sample, inputs)
    case.their_gradients = [torch.zeros_like(t) if g is None else g for g, t in zip(found, inputs, strict=True)]
    try:
        with _seconds(SECONDS):
            mine = _leaves(process(ours))
            scaled = [_weighted(mine[i], convert(w, {}, False)) for i, w in zip(places, weights, strict=True)]
            total = sum(scaled[1:], scaled[0])
            case.our_gradients = list(total.gradient(*(seen[id(t)] for t in inputs)))
    except Exception as error:
        case.problem = f"gradient: {_said(error)}"


def _weighted(result: Tensor, weight: Tensor) -> Tensor:
    """The number whose gradients PyTorch gives where it is told that the gradient of a result is weight."""
    return (result * weight.conj()).sum().real


def _tensors(value: Any) -> list[torch.Tensor]:
    found = [t for t in _leaves(value) if isinstance(t, torch.Tensor)]
    return list({id(t): t for t in found}.values())


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]


def compute(cases: list[Case]) -> None:
    """Realise what is asked, all in one schedule; one by one where that fails."""
    open_ = [case for case in cases if case.problem is None and case.tensors()]
    if len(open_) > 1 and _failure(open_) is not None:
        for case in open_:
            case.problem = _failure([case])
    elif len(open_) == 1:
        open_[0].problem = _failure(open_)


def _failure(cases: list[Case]) -> str | None:
    """Realise the results of some cases; what was raised, if anything was."""
    every = [t for case in cases for t in case.tensors()]
    try:
        with _seconds(SECONDS):
            every[0].realize(*every[1:])
    except Exception as error:
        return _said(error)
    return None


def compared(case: Case, values: bool) -> tuple[str | None, str | None]:
    """(what is wrong with the values, what is wrong with the gradients)."""
    if case.problem is not None:
        gradient = case.problem.removeprefix("gradient: ")
        return (None, gradient) if gradient != case.problem else (case.problem, None)
    if len(case.ours) != len(case.theirs):
        return f"{len(case.ours)} results, not {len(case.theirs)}", None
    for number, (ours, theirs) in enumerate(zip(case.ours, case.theirs, strict=True)):
        problem = difference(ours, theirs, values)
        if problem and difference(ours, theirs, False) is None and _is_as_near(ours, theirs, case.exact, number):
            problem = None
        if problem and number == 1 and difference(ours, theirs, False) is None:  # places, of equal elements maybe
            problem = None if case.stand(case.theirs[0].numpy(force=True), ours.numpy()) else problem
        if problem:
            return problem, None
    return None, _gradients_differ(case, values)


def _is_as_near(ours: Tensor, theirs: Any, exact: Callable[[], list[Any]], number: int) -> bool:
    """Whether no value of a float32 result is further off the exact one than the worst of PyTorch's.

    Of a long sum that cancels nearly to zero neither has the digits that CLOSE asks for.
    """
    if not isinstance(theirs, torch.Tensor) or theirs.dtype is not torch.float32:
        return False
    want = exact()[number].numpy(force=True)
    if want.dtype != np.float64:
        return False
    off, theirs_off = (np.abs(each - want).max() for each in (ours.numpy(), theirs.numpy(force=True)))
    return bool(off <= theirs_off <= CLOSE[torch.float32][0] * np.abs(want).max())


def _gradients_differ(case: Case, values: bool) -> str | None:
    """What is wrong with the gradients; where they differ, what changes of the inputs that are free see of it."""
    pairs = list(zip(case.our_gradients, case.their_gradients, strict=True))
    problems = [difference(mine, other, values, GRADIENT_CLOSE) for mine, other in pairs]
    first = next((problem for problem in problems if problem), None)
    if first is None or any(difference(mine, other, False) for mine, other in pairs):
        return first
    mine = case.seen([gradient.numpy() for gradient, _ in pairs])
    others = case.seen([gradient for _, gradient in pairs])
    tensors = [Tensor(torch.as_tensor(m).numpy()) for m in mine]
    problems = [difference(a, b, values, GRADIENT_CLOSE) for a, b in zip(tensors, others, strict=True)]
    return next((problem for problem in problems if problem), None)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex))


def _errors(op: Any, verdict: Verdict, most: int | None) -> None:
    """What PyTorch refuses must be refused here, when it is asked or when it is computed."""
    _seed(op, "error")
    try:
        every = list(enumerate(op.error_inputs("cpu")))
    except Exception:
        return  # it has none for this build of PyTorch
    for number, wrong in _spread(every, most, f"{name_of(op)} error"):
        if not wrong.error_regex and any(_is_number(v) for v in (wrong.sample_input.input, *wrong.sample_input.args)):
            continue  # a number beside a tensor, which PyTorch refuses and we do not
        try:
            with _seconds(SECONDS), warnings.catch_warnings(), Context(CHECK_INDEX=1):
                warnings.simplefilter("ignore")
                result = _leaves(call(op, wrong.sample_input, {}))
                for t in result:
                    if isinstance(t, Tensor):
                        t.realize()
        except (Left, TimeoutError):
            continue
        except Exception as error:
            verdict.note("error", number, missing(error, wrong.error_type))
        else:
            verdict.note("error", number, f"accepted: {str(wrong.error_regex)[:120]}")


def judge(op: Any, most: int | None = None, kinds: tuple[str, ...] = KINDS) -> Verdict:
    """An operator's verdict over at most `most` samples of each kind (all of them for None)."""
    with Context(DEFAULT_INT="int64"):
        return _judged(op, most, kinds)


def _judged(op: Any, most: int | None, kinds: tuple[str, ...]) -> Verdict:
    verdict = Verdict(name_of(op))
    found = find(op)
    if found is None or verdict.op in OTHER:
        return verdict
    verdict.found = found[0]
    values = not _draws(op)
    for kind, dtype in DTYPES.items():
        if kind not in kinds or dtype not in op.dtypes:
            continue
        grads = values and GRADIENTS.get(kind) in kinds and _has_gradient(op, dtype)
        asked = samples(op, kind, most)
        for start in range(0, len(asked), BATCH):
            cases = [c for n, s in asked[start : start + BATCH] if (c := ask(op, n, s, grads)) is not None]
            compute(cases)
            for case in cases:
                if case.drops:
                    said = missing(case.error, TypeError) if case.error else f"accepted: {DROPS}"
                    verdict.note("error", case.number, said)
                    continue
                problem, gradient = compared(case, values)
                verdict.note(kind, case.number, problem)
                if problem is None and (case.their_gradients or gradient):
                    verdict.note(GRADIENTS[kind], case.number, gradient)
    if "error" in kinds:
        _errors(op, verdict, most)
    return verdict


__all__ = ["CLOSE", "DTYPES", "KINDS", "Verdict", "convert", "difference", "judge", "name_of", "operators", "samples"]
