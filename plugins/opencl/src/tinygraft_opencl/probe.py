"""Whether there may be an OpenCL device: the binding is installed and a driver is registered. Loads neither."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from tinygraft.plugin import UNCOUNTED, Probe
from tinygraft_opencl import pocl

SYSTEM = Path("/etc/OpenCL/vendors")
NO_BINDING = "pyopencl is not installed"
GET_BINDING = "pip install pyopencl"
GET_DRIVER = (
    "install the OpenCL driver of your hardware, or for the processor: pip install pocl-binary-distribution "
    "(comes with tinygraft-opencl[pocl])"
)


def probe() -> Probe:
    """Return a Probe: usable when pyopencl is installed and a driver that can work is registered; lists the drivers.

    Whether PoCL supports the processor is known only after loading it, so that is checked where a device is opened.
    """
    found = find_spec("pyopencl")
    if found is None:
        return Probe(ok=False, detail=NO_BINDING, hint=GET_BINDING)
    if not sys.platform.startswith("linux"):  # registered elsewhere: opening says whether there is one
        return Probe(ok=True, detail="pyopencl is installed", count=UNCOUNTED)
    folders = driver_folders(found.submodule_search_locations or ())
    drivers = registered(folders)
    if not drivers:
        searched = ", ".join(map(str, folders))
        return Probe(ok=False, detail=f"no OpenCL driver is registered (no .icd file in {searched})", hint=GET_DRIVER)
    if all("pocl" in name for name in drivers) and (missing := pocl.missing_linker()):
        return Probe(ok=False, detail=missing, hint=pocl.GET_LINKER)
    return Probe(ok=True, detail=f"registered drivers: {', '.join(drivers)}", count=UNCOUNTED)


def driver_folders(package: Iterable[str]) -> list[Path]:
    """Return where the loader of pyopencl, installed in the folders `package`, looks for drivers.

    Beside itself too, unless OCL_ICD_VENDORS names a file: an .icd file or a driver's library is then the only driver.
    """
    chosen = os.environ.get("OCL_ICD_VENDORS") or os.environ.get("OPENCL_VENDOR_PATH")
    if chosen and Path(chosen).is_file():
        return [Path(chosen)]
    return [Path(chosen) if chosen else SYSTEM, *(Path(folder) / ".libs" for folder in package)]


def registered(folders: list[Path]) -> list[str]:
    """Return the names of the drivers in `folders`; an .icd file or a driver's library may stand for a folder."""
    names = []
    for folder in folders:
        files = [folder] if folder.is_file() else sorted(folder.glob("*.icd"))
        names += [file.stem for file in files]
    return names
