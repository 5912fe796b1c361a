"""Whether there may be an OpenCL device: the binding is installed and a driver is registered. Loads neither."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from tinygraft.plugin import Probe
from tinygraft_opencl import pocl

SYSTEM = Path("/etc/OpenCL/vendors")
NO_BINDING = "pyopencl is not installed"
GET_BINDING = "pip install pyopencl"
GET_DRIVER = (
    "install the OpenCL driver of your hardware, or for the processor: pip install pocl-binary-distribution "
    "(comes with tinygraft-opencl[pocl])"
)


def probe() -> Probe:
    """Usable when pyopencl is installed and at least one registered driver can work; says which are there."""
    found = find_spec("pyopencl")
    if found is None:
        return Probe(ok=False, detail=NO_BINDING, hint=GET_BINDING)
    if not sys.platform.startswith("linux"):  # registered elsewhere: opening says whether there is one
        return Probe(ok=True, detail="pyopencl is installed", count=None)
    folders = driver_folders(found.submodule_search_locations or ())
    drivers = registered(folders)
    if not drivers:
        places = ", ".join(map(str, folders))
        return Probe(ok=False, detail=f"no OpenCL driver is registered (no .icd file in {places})", hint=GET_DRIVER)
    if all("pocl" in name for name in drivers) and (missing := pocl.why_unusable()):
        return Probe(ok=False, detail=missing, hint=pocl.GET_LINKER)
    return Probe(ok=True, detail=f"registered drivers: {', '.join(drivers)}", count=None)


def driver_folders(package: Iterable[str]) -> list[Path]:
    """Where the loader of pyopencl, which lies in the folders of package, looks for drivers: beside itself too."""
    chosen = os.environ.get("OCL_ICD_VENDORS") or os.environ.get("OPENCL_VENDOR_PATH")
    return [Path(chosen) if chosen else SYSTEM, *(Path(folder) / ".libs" for folder in package)]


def registered(folders: list[Path]) -> list[str]:
    """The names of the drivers in folders; a folder may be a single .icd file as well."""
    names = []
    for folder in folders:
        files = [folder] if folder.suffix == ".icd" and folder.is_file() else sorted(folder.glob("*.icd"))
        names += [file.stem for file in files]
    return names
