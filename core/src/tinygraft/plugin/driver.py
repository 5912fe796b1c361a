"""What a plugin imports, beside `tinygraft.plugin`, whose device has a driver of streams, events, modules and graphs.

To fill in: DriverFacts (its functions by name, its results), DriverContext (how it is opened and made current), a
Backend over DriverBackend. What that takes comes along: DriverCalls, DriverCard and its choice by a setting,
DriverAllocator, DriverQueue, DriverGraph, DriverProgram. RuntimeCompiler is a compiler of such a driver's maker, and
`disassembled` the text of its machine code.
It is imported when a device is opened, and not with `tinygraft.plugin`.
"""

from tinygraft.device.driver.disassembled import disassembled
from tinygraft.device.driver.driver_backend import DriverBackend
from tinygraft.device.driver.driver_calls import BITS, DriverCalls, DriverFacts
from tinygraft.device.driver.driver_cards import (
    CardChoice,
    DriverCard,
    allowed,
    check_process,
    chosen,
    named,
    of_ordinal,
)
from tinygraft.device.driver.driver_context import KEPT_EVENTS, DriverContext, DriverEvent, NameRange
from tinygraft.device.driver.driver_graph import CopyStep, DriverGraph, KernelStep
from tinygraft.device.driver.driver_memory import DriverAllocator, DriverMemory
from tinygraft.device.driver.driver_module import DriverModule, refused
from tinygraft.device.driver.driver_program import DriverProgram
from tinygraft.device.driver.driver_queue import DriverQueue, StreamEvent
from tinygraft.device.driver.runtime_compiler import RuntimeCompiler, SourceRefused, build_of

__all__ = [
    "BITS", "KEPT_EVENTS", "CardChoice", "CopyStep", "DriverAllocator", "DriverBackend", "DriverCalls", "DriverCard",
    "DriverContext", "DriverEvent", "DriverFacts", "DriverGraph", "DriverMemory", "DriverModule", "DriverProgram",
    "DriverQueue", "KernelStep", "NameRange", "RuntimeCompiler", "SourceRefused", "StreamEvent", "allowed", "build_of",
    "check_process", "chosen", "disassembled", "named", "of_ordinal", "refused",
]  # fmt: skip
