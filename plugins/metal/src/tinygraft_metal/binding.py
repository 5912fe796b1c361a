"""PyObjC's modules for Metal, imported when a device is opened, and which GPU an ordinal is.

PyObjC writes a method newBufferWithLength:options: as newBufferWithLength_options_, returns a pair where the last
argument is where an error goes (the caller passes None there), and takes tuples for structures. Before 12.2.3 it does
not know that the caller owns what a method new... of an object returns, retains it once more, and so never lets go of
it (its issue 690): memory that was freed stayed allocated. OWNED tells it, which changes nothing in newer ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from tinygraft.plugin import DeviceUnavailable
from tinygraft.plugin.driver import DriverCard, allowed, check_process, of_ordinal
from tinygraft_metal.probe import GET_BINDING
from tinygraft_metal.spec import METAL_DEVICE

# given: the methods called here whose results are the caller's, and the types of their arguments (`o^@`: an error out)
OWNED: dict[str, tuple[bytes, ...]] = {
    "newCommandQueue": (),
    "newSharedEvent": (),
    "newBufferWithLength:options:": (b"Q", b"Q"),
    "newFunctionWithName:": (b"@",),
    "newLibraryWithSource:options:error:": (b"@", b"@", b"o^@"),
    "newBinaryArchiveWithDescriptor:error:": (b"@", b"o^@"),
    "newComputePipelineStateWithDescriptor:options:reflection:error:": (b"@", b"Q", b"^@", b"o^@"),
    "newIndirectCommandBufferWithDescriptor:maxCommandCount:options:": (b"@", b"Q", b"Q"),
}


class Binding(NamedTuple):
    """The modules, and the process that loaded them: Metal does not work in a forked child of it."""

    metal: Any
    objc: Any
    foundation: Any
    process: int


@cache
def binding() -> Binding:
    """Return PyObjC's modules. Raises DeviceUnavailable where one cannot be imported."""
    try:
        metal, objc, foundation = (import_module(name) for name in ("Metal", "objc", "Foundation"))
    except ImportError as error:
        raise DeviceUnavailable(f"PyObjC cannot be imported: {error}; {GET_BINDING}") from error
    own_results(objc)
    return Binding(metal, objc, foundation, os.getpid())


def own_results(objc: Any) -> None:
    """Tell PyObjC which results are the caller's; the types are said again, as this replaces what it knows."""
    for selector, types in OWNED.items():
        arguments = {
            number: {"type": form[1:], "type_modifier": b"o"} if form.startswith(b"o") else {"type": form}
            for number, form in enumerate(types, 2)  # 0 and 1 are the object and the selector
        }
        found = {"required": True, "retval": {"type": b"@", "already_retained": True}, "arguments": arguments}
        objc.registerMetaDataForSelector(b"NSObject", selector.encode(), found)


def every() -> list[DriverCard]:
    """Return the GPUs by ordinal, the system's default first. Raises DeviceUnavailable where none is left."""
    found = binding()
    check_process(found.process, "Metal", "METAL")
    cards = numbered(found.metal.MTLCopyAllDevices() or (), found.metal.MTLCreateSystemDefaultDevice())
    if not cards:
        raise DeviceUnavailable(
            "Metal has no GPU for this process; a virtual machine needs a paravirtual GPU, and a session without a "
            "screen a Mac with its own"
        )
    return allowed(cards, METAL_DEVICE.name, METAL_DEVICE.value, "")


def numbered(devices: Iterable[Any], default: Any) -> list[DriverCard]:
    """Return Metal's devices as cards, the default one first; it alone where there is no list."""
    found = list(devices) or ([] if default is None else [default])
    if default is not None:
        found.sort(key=lambda one: one.registryID() != default.registryID())
    return [DriverCard(n, str(one.name()), f"{one.registryID():#x}", one) for n, one in enumerate(found)]


def choose(ordinal: int) -> DriverCard:
    """Return the GPU of an ordinal. Raises DeviceUnavailable, which says which there are."""
    return of_ordinal(every(), ordinal, "")


def is_virtual(device: Any) -> bool:
    """Return whether a GPU is that of a virtual machine ("Apple Paravirtual device"), as hosted CI has.

    It is known to run indirect command buffers wrongly, and Metal ends the process where it is given a binary archive.
    """
    return "virtual" in str(device.name()).lower()


def sentence(error: Any) -> str:
    """Return what an NSError says; where there is none, that Metal did not say why."""
    return "Metal does not say why" if error is None else str(error.localizedDescription()).strip()
