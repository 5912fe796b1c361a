"""What a call under TinyJit launched (Trace), and what is known of the calls of its kind (Met)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tinygraft.engine.capture import Capture, CapturedMemory, Recorded
from tinygraft.engine.compile import Compiled
from tinygraft.jit.arguments import Arguments
from tinygraft.tensor.nested import hides_tensors, tensors_in
from tinygraft.tensor.state.live import live_tensors
from tinygraft.uop.held import HELD, buffers_of
from tinygraft.uop.uop import postorder, toposort

Role = tuple[str, int]  # "in": number of the argument, "made": number in this call, or "keep": number of the BUFFER
Launched = list[tuple[Compiled | None, tuple[Role, ...]]]


@dataclass(frozen=True, slots=True)
class Met:
    """What calls of one kind have launched, as far as the next one is compared with it.

    values are those of the variables in the last call's arguments; None where a variable had another value in a launch.
    same are the variables that had one value in all of these calls: nobody knows whether the function follows them, or
    binds a variable of that name itself. memory has the numbers of the BUFFERs of the last call's arguments, and stays
    says which were the same in all of these calls: nobody knows whether the function reaches them as its arguments.
    """

    launched: Launched
    outcome: list[Role]
    values: Mapping[str, int] | None
    same: frozenset[str]
    memory: tuple[int, ...] = ()
    stays: frozenset[int] = frozenset()

    def again(self, now: Met) -> Met | None:
        """What is known after one more call; None where it did something else."""
        if self.values is None or now.values is None or (self.launched, self.outcome) != (now.launched, now.outcome):
            return None
        same = {name for name in self.same if self.values.get(name) == now.values.get(name)}
        stays = {i for i in self.stays if self.memory[i] == now.memory[i]}
        return replace(now, same=frozenset(same), stays=frozenset(stays))

    def tells(self, arguments: Arguments) -> bool:
        """Whether a call with these values of variables and this memory is known to launch the same with them."""
        if self.same:
            mine, values = self.values or {}, arguments.values
            if any(values.get(name) != mine.get(name) for name in self.same):
                return False
        return not self.stays or all([arguments.buffers[i].arg.uid == self.memory[i] for i in self.stays])  # noqa: C419  faster


class Trace:
    """The launches of one call, and what each of their buffers is to it.

    `launched` is equal for calls that launched the same kernels on buffers of the same roles.
    """

    def __init__(self, capture: Capture, arguments: Arguments, start: int) -> None:
        """Give each BUFFER of `capture` its Role; one with a number above `start` was made by the call.

        Copies that save an old value are left out where no launch reads them. `given` is None where a variable had
        two values; `once` is set where the call may not be repeated: there, where Python read a value, or where
        memory of an argument was written and no argument has it any more.
        """
        self.launches = [launch for launch in capture.launches if not launch.saves or _is_read(launch, capture)]
        self.start = start
        self.memory: dict[int, CapturedMemory] = capture.memory
        mine, given = capture.values, arguments.values
        other = any(mine.get(name, value) != value for name, value in given.items())
        self.given = None if capture.varied or arguments.varied or other else given
        self.once = capture.read or self.given is None
        self.nodes = capture.nodes
        self.values = capture.values
        self.arguments = tuple([node.arg.uid for node in arguments.buffers])
        self.roles: dict[int, Role] = {uid: ("in", i) for i, uid in enumerate(self.arguments)}
        made = 0
        for launch in self.launches:
            for uid in launch.uids:
                if uid not in self.roles:
                    self.roles[uid] = ("made", made) if uid > start else ("keep", uid)
                    made += uid > start
        of = self.roles
        self.launched: Launched = [(each.kernel, tuple([of[uid] for uid in each.uids])) for each in self.launches]
        written = {uid for launch in self.launches for uid in launch.written()}
        taken = [node for node in arguments.buffers if node.arg.uid in written]
        if taken:  # memory that another tensor was given, and wrote to: that of the argument is elsewhere since
            over = set(toposort(*[tensor.uop for tensor in arguments.tensors]))
            self.once |= not over.issuperset(taken)

    def names(self) -> list[str]:
        """The names of the kernels, in order."""
        return ["copy" if launch.kernel is None else launch.kernel.name for launch in self.launches]

    def outcome(self, result: Any) -> list[Role]:
        """What the memory of each tensor of a result is to the call. Of what is not in any launch it is that memory.

        Empty memory that the call made is in no launch, and new in each call: one is like another.
        """
        nodes = [node for tensor in tensors_in(result) for node in buffers_of(tensor.uop.base)]
        empty = {node.arg.uid: ("made", -1) for node in nodes if not node.arg.size and node.arg.uid > self.start}
        return [self.roles.get(uid) or empty.get(uid, ("keep", uid)) for uid in [node.arg.uid for node in nodes]]

    def met(self, result: Any) -> Met:
        """What the next call is compared with."""
        stays = frozenset(range(len(self.arguments)))
        return Met(self.launched, self.outcome(result), self.given, frozenset(self.given or ()), self.arguments, stays)

    def may_repeat(self, result: Any) -> bool:
        """Whether launching all this again does what the call did.

        Not where Python was told a value, or a variable had two (one in the arguments and one in a launch, too), nor
        where it writes to data from Python or gives it back, which is there only once, nor where it reads what no
        launch has written, nor where memory from outside is gone, nor where a tensor of the result is in an object that
        is no container.
        """
        if self.once or hides_tensors(result):
            return False
        known: set[int] = set()
        for launch in self.launches:
            written = launch.written()
            for uid in launch.uids:
                role, memory = self.roles[uid][0], self.memory[uid]
                if role == "keep" and memory.buffer() is None:
                    return False
                if role == "made" and (uid in written if memory.data else uid not in known and uid not in written):
                    return False
            known.update(written)
        mine = (node for t in tensors_in(result) for node in buffers_of(t.uop.base) if node.arg.size)
        return all(node.arg.uid < self.start or node.arg.uid in known for node in mine)


def leaves_work(capture: Capture) -> bool:
    """Whether a call has left a tensor somewhere whose value has to be computed, for which nothing was launched."""
    return any(
        tensor.uop.base.op not in HELD
        and not capture.existed(tensor)
        and any(node.op in HELD for node in postorder(tensor.uop))
        for tensor in live_tensors()
    )


def _is_read(launch: Recorded, capture: Capture) -> bool:
    """Whether a later launch reads the copy that a launch makes."""
    return any(launch.uids[0] in other.uids for other in capture.launches if other is not launch)


def difference(name: str, captured: Launched, now: Launched, is_asked: bool = True) -> str:
    """What TinyJit(check=True), or else VALIDATE=1, says when a call launched something else than what was captured."""
    who = "TinyJit(check=True)" if is_asked else "VALIDATE=1"
    for i, ((a, _), (b, _)) in enumerate(zip(captured, now, strict=False)):
        if a is not b:
            was, is_ = (getattr(k, "name", "a copy") for k in (a, b))
            other = "another " if was == is_ else ""
            return (
                f"{who}: {name} launched {other}{is_} where {was} was captured, as launch {i + 1}\n"
                "  hint: something that it reads from outside has changed; pass it as an argument"
            )
    if len(captured) != len(now):
        return (
            f"{who}: {name} launched {len(now)} kernels where {len(captured)} were captured\n"
            "  hint: something that it reads from outside has changed; pass it as an argument"
        )
    return (
        f"{who}: {name} used other memory than what was captured\n"
        "  hint: a tensor that it reads from outside is a new one in each call; assign to it, or pass it as an argument"
    )
