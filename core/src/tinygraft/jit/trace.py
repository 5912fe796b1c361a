"""What one call under TinyJit launched (Trace), and what all calls of its kind did so far (RecordedCalls)."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tinygraft.device.buffer import Buffer
from tinygraft.engine.capture import Capture, CapturedMemory, Recorded
from tinygraft.engine.own_numbers import Compiled
from tinygraft.jit.arguments import Arguments
from tinygraft.tensor.nested import hides_tensors, tensors_in
from tinygraft.uop.held import buffers_of
from tinygraft.uop.uop import UOp, toposort

Role = tuple[str, int]  # "in": index of the argument, "made": count in this call, or "keep" (outside): id of the BUFFER
Launched = list[tuple[Compiled | None, tuple[Role, ...]]]


READS = "it reads a value (item, numpy, a mask), which may be another one in the next call"
ANOTHER_NUMBER = (
    "\n  hint: a number of Python's that changes from call to call is a kernel each time; give it as an argument, "
    "a Tensor"
)
TWO_VALUES = "a variable has two values in it, or another one than in the arguments"
FROM_PYTHON = "its result is data from Python, which no launch makes again"
DATA_HINT = (
    "\n  hint: make it outside and give it as an argument; random numbers of Tensor are drawn anew in each replay"
)
OTHER_DATA = f"it makes a tensor of Python's data (NumPy's, a list), which was other data in the call before{DATA_HINT}"


@dataclass(slots=True)
class RecordedCalls:
    """What calls of one kind have launched, with which the next one is compared.

    `launched` are their kernels with the roles of the buffers, `outcome` has the roles of the memory of the result.
    `values` are those of the variables in the last call's arguments; None where a variable had another value in a
    launch. `same` are the variables that had one value in all of these calls: it is unknown whether the function uses
    their values, or binds a variable of that name itself. `memory` has the ids of the BUFFERs of the last call's
    arguments, and `stays` the indices of those that were the same in all of these calls: it is unknown whether the
    function reaches them as its arguments or from outside. `left` says that one has left a list or dict elsewhere.
    `data` has a digest of each tensor that was made of Python's data: replays read what the last call made. It is None
    where there is such data in a call that no replay can do. `reads` counts the last calls, one after another, in which
    Python read a value, `unrecorded` how many calls are to be run without a record before the next one that has one.
    """

    launched: Launched
    outcome: list[Role]
    values: Mapping[str, int] | None
    same: frozenset[str]
    memory: tuple[int, ...] = ()
    stays: frozenset[int] = frozenset()
    left: bool = False
    data: tuple[bytes, ...] | None = ()
    reads: int = 0
    unrecorded: int = 0

    def again(self, now: RecordedCalls) -> RecordedCalls | None:
        """Return the record with one more call, `now`; None where that launched something else."""
        if self.values is None or now.values is None or (self.launched, self.outcome) != (now.launched, now.outcome):
            return None
        if self.data is None or self.data != now.data:
            return None
        same = {name for name in self.same if self.values.get(name) == now.values.get(name)}
        stays = {i for i in self.stays if self.memory[i] == now.memory[i]}
        return replace(now, same=frozenset(same), stays=frozenset(stays))

    def unlike(self, now: RecordedCalls) -> str:
        """Return how `now`, the next call of the kind, differs from these, where `again` returns None."""
        if self.values is None or now.values is None:
            return TWO_VALUES
        if self.data is None and self.launched == now.launched:
            return "the call before could not be replayed, and it makes a tensor of Python's data"
        if self.launched == now.launched and self.data != now.data:
            return OTHER_DATA
        if self.launched == now.launched:
            return "its result is other memory than that of the call before"
        for (kernel, roles), (other, others) in zip(self.launched, now.launched, strict=False):
            if kernel is not other:
                was, is_ = (getattr(each, "name", "a copy") for each in (kernel, other))
                text = f"it launched {is_}, and {'another ' * (was == is_)}{was} in the call before"
                return text + ANOTHER_NUMBER * (was == is_)
            if roles != others:
                name = getattr(kernel, "name", "a copy")
                return f"{name} used other memory than in the call before: of a tensor from outside that is new in each"
        return f"it launched {len(now.launched)} kernels, and {len(self.launched)} in the call before"

    def covers(self, arguments: Arguments) -> bool:
        """Return whether a replay is known to be right for the variables and the memory of a call.

        It is not where a variable, or the memory of an argument, that was the same in all calls so far is another one.
        """
        if self.same:
            mine, values = self.values or {}, arguments.values
            if any(values.get(name) != mine.get(name) for name in self.same):
                return False
        return not self.stays or all([arguments.buffers[i].arg.uid == self.memory[i] for i in self.stays])  # noqa: C419  faster


class Trace:
    """The launches of one call, and what each of their buffers is to it.

    `launched` is equal for calls that launched the same kernels on buffers of the same roles.
    """

    def __init__(self, capture: Capture, arguments: Arguments) -> None:
        """Give each BUFFER of `capture` its Role; one with a number above its `start` was made by the call.

        Copies that save an old value are omitted where no launch reads them. `bindings`, the values of the arguments'
        variables, is None where a variable had two values. `obstacle` says why it cannot be launched again: then, where
        Python read a value, and where memory of an argument was written and no argument has it any more.
        """
        needed = [
            (launch, number)
            for launch, number in zip(capture.launches, capture.realised, strict=True)
            if not launch.saves or _is_read(launch, capture)
        ]
        self.launches: list[Recorded] = [launch for launch, _ in needed]
        self.realised: list[int] = [number for _, number in needed]  # the realisation that made each launch
        self.start: int = capture.start
        self.memory: dict[int, CapturedMemory] = capture.memory
        mine, bindings = capture.values, arguments.values
        other = any(mine.get(name, value) != value for name, value in bindings.items())
        self.bindings: dict[str, int] | None = None if capture.varied or arguments.varied or other else bindings
        self.obstacle: str = (
            (capture.why_read or READS) if capture.read else TWO_VALUES if self.bindings is None else ""
        )
        self.nodes: dict[int, weakref.ref[UOp]] = capture.nodes
        self.values: dict[str, int] = capture.values
        self.arguments: tuple[Any, ...] = tuple([node.arg.uid for node in arguments.buffers])
        self.roles: dict[int, Role] = {uid: ("in", i) for i, uid in enumerate(self.arguments)}
        made = 0
        for launch in self.launches:
            for uid in launch.uids:
                if uid not in self.roles:
                    self.roles[uid] = ("made", made) if uid > self.start else ("keep", uid)
                    made += uid > self.start
        of = self.roles
        self.launched: Launched = [(each.kernel, tuple([of[uid] for uid in each.uids])) for each in self.launches]
        written = {uid for launch in self.launches for uid in launch.written()}
        assigned = [node for node in arguments.buffers if node.arg.uid in written]
        if assigned:  # memory that another tensor has taken over, and wrote to: the argument has other memory since
            over = set(toposort(*[tensor.uop for tensor in arguments.tensors]))
            if not over.issuperset(assigned):
                self.obstacle = self.obstacle or "memory of an argument is written, and no argument has it any more"

    def outcome(self, result: Any) -> list[Role]:
        """Return the role of the memory of each tensor of a result; memory that is in no launch is from outside.

        Empty memory that the call made is in no launch, and new in each call: all of it has one role.
        """
        nodes = [node for tensor in tensors_in(result) for node in buffers_of(tensor.uop.base)]
        empty = {node.arg.uid: ("made", -1) for node in nodes if not node.arg.size and node.arg.uid > self.start}
        return [self.roles.get(uid) or empty.get(uid, ("keep", uid)) for uid in [node.arg.uid for node in nodes]]

    def outside(self, result: Any) -> frozenset[int]:
        """Return the ids of the memory from outside: what launches read or write, and what a result has of it."""
        mine = {node.arg.uid for tensor in tensors_in(result) for node in buffers_of(tensor.uop.base)}
        inside = {uid for uid, (role, _) in self.roles.items() if role != "keep"} | {*self.arguments}
        return frozenset(({*self.roles} | mine) - inside)

    def recorded(self, result: Any) -> RecordedCalls:
        """Return the record of this one call, with which the next one is compared."""
        stays = frozenset(range(len(self.arguments)))
        same = frozenset(self.bindings or ())
        return RecordedCalls(
            self.launched, self.outcome(result), self.bindings, same, self.arguments, stays, data=self.data()
        )

    def data(self) -> tuple[bytes, ...] | None:
        """Return a digest of each tensor that the call has made of Python's data, in the order of the launches.

        None where there are some, and no replay can do the call: a digest may take longer than the call itself.
        """
        made = [self.memory[uid].data for uid, (role, _) in self.roles.items() if role == "made"]
        buffers = [buffer for buffer in made if buffer is not None]
        return None if buffers and self.obstacle else tuple(map(_digest, buffers))

    def why_not(self, result: Any) -> str:
        """Return why launching all this again would not do what the call did; "" where it would.

        It would not where Python read a value or a variable had two values (also one in the arguments and one in a
        launch); where the call writes to data from Python or returns it, which no replay can make again; where it reads
        memory that no launch has written; where memory from outside was freed; or where a tensor of the result is in an
        object that is no container.
        """
        if self.obstacle:
            return self.obstacle
        if hides_tensors(result):
            return "its result has a tensor, or a symbolic size, in an object that is no list, tuple or dict"
        known: set[int] = set()
        for launch in self.launches:
            written = launch.written()
            for uid in launch.uids:
                role, memory = self.roles[uid][0], self.memory[uid]
                if role == "keep" and memory.buffer() is None:
                    return "memory from outside that it reads is freed"
                if role == "made" and (uid in written if memory.data else uid not in known and uid not in written):
                    return "it writes to data that it makes of Python's" if memory.data else FROM_PYTHON
            known.update(written)
        mine = (node for t in tensors_in(result) for node in buffers_of(t.uop.base) if node.arg.size)
        return "" if all(node.arg.uid < self.start or node.arg.uid in known for node in mine) else FROM_PYTHON


def _digest(buffer: Buffer) -> bytes:
    """Return a digest of the bytes of a buffer."""
    return hashlib.blake2b(buffer.copy_out(memoryview(bytearray(buffer.nbytes))), digest_size=16).digest()


def _is_read(launch: Recorded, capture: Capture) -> bool:
    """Return whether another launch uses the copy that `launch` makes."""
    return any(launch.uids[0] in other.uids for other in capture.launches if other is not launch)


def difference(name: str, captured: Launched, now: Launched, by_check: bool = True) -> str:
    """Return the text of the error where a call of the function `name` launched something else than was captured.

    `by_check` says that TinyJit(check=True) compares, and not VALIDATE=1.
    """
    checker = "TinyJit(check=True)" if by_check else "VALIDATE=1"
    for i, ((a, _), (b, _)) in enumerate(zip(captured, now, strict=False)):
        if a is not b:
            was, is_ = (getattr(k, "name", "a copy") for k in (a, b))
            other = "another " if was == is_ else ""
            return (
                f"{checker}: {name} launched {other}{is_} where {was} was captured, as launch {i + 1}\n"
                "  hint: something that it reads from outside has changed; pass it as an argument"
            )
    if len(captured) != len(now):
        return (
            f"{checker}: {name} launched {len(now)} kernels where {len(captured)} were captured\n"
            "  hint: something that it reads from outside has changed; pass it as an argument"
        )
    if captured == now:
        return (
            f"{checker}: {name} made a tensor of Python's data (NumPy's, a list) that is other data than was captured"
            f"{DATA_HINT}"
        )
    return (
        f"{checker}: {name} used other memory than what was captured\n"
        "  hint: a tensor that it reads from outside is a new one in each call; assign to it, or pass it as an argument"
    )
