"""Errors name what is missing: binding, driver, platform, device, ordinal, linker, processor; each with what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from tinygraft.config import Context
from tinygraft.errors import CompileError, DeviceLostError, DeviceUnavailable, SettingError
from tinygraft.uop.stages import Signature, Source
from tinygraft_opencl import platforms, pocl
from tinygraft_opencl.device import OpenCLBackend
from tinygraft_opencl.probe import driver_folders, probe, registered
from tinygraft_opencl.queues import ClEvent

OPEN = "from tinygraft import Tensor\nprint((Tensor([1.0, 2.0], device='OPENCL') + 1).tolist())"
PROBE = "from tinygraft_opencl.probe import probe\nprint(probe())"


def child(code: str, **settings: str) -> tuple[int, str]:
    """The exit code of a script in a process of its own, and what it says."""
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | settings, capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


class Cl:
    """A stand-in of pyopencl with the devices that a test gives it."""

    class Error(Exception):
        """What the driver raises."""

    class device_type:
        """Kinds of devices."""

        CPU, GPU, ACCELERATOR = 2, 4, 8

    def __init__(self, *platforms: Any) -> None:
        self.platforms = platforms

    def get_platforms(self) -> Any:
        """Those that were given."""
        return list(self.platforms)


class Platform:
    """A platform of a test."""

    vendor, version = "a vendor", "OpenCL 3.0"

    def __init__(self, name: str, *devices: tuple[str, int]) -> None:
        self.name, self.devices = name, [Device(self, *device) for device in devices]

    def get_devices(self) -> list[Device]:
        """Its devices; as drivers do, an error for none."""
        if not self.devices:
            raise Cl.Error("DEVICE_NOT_FOUND")
        return self.devices


class Device:
    """A device of a test."""

    version = "OpenCL 3.0"

    def __init__(self, platform: Platform, name: str, type: int) -> None:
        self.platform, self.name, self.type = platform, name, type


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Any:
    """found(*platforms): what pyopencl finds in a test."""
    return lambda *given: monkeypatch.setattr(platforms, "binding", lambda: Cl(*given))


ALPHA = Platform("Alpha", ("small card", 4), ("great card", 4))
BETA = Platform("Beta", ("processor", 2))


def test_the_probe_says_which_drivers_are_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads names of files and neither loads a driver nor runs anything."""
    (tmp_path / "acme.icd").write_text("libacme.so")
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    result = probe()
    assert (result.ok, result.count) == (True, -1)
    assert result.detail.startswith("registered drivers: acme")
    assert registered(driver_folders([])) == ["acme"]
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "acme.icd"))
    assert registered(driver_folders(["elsewhere"])) == ["acme"]


def test_the_probe_loads_no_binding() -> None:
    """pyopencl is looked for and not imported, with an empty PATH too."""
    code = f"{PROBE}\nimport sys\nprint('pyopencl' in sys.modules)"
    status, text = child(code, PATH="")
    assert status == 0
    assert text.splitlines()[-1] == "False"


def test_no_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe and the opening of a device say that pyopencl is not installed."""
    monkeypatch.setattr("tinygraft_opencl.probe.find_spec", lambda name: None)
    result = probe()
    assert (result.ok, result.detail, result.hint) == (False, "pyopencl is not installed", "pip install pyopencl")
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(DeviceUnavailable, match="pyopencl is not installed; pip install pyopencl"):
        platforms.binding()


def test_no_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No .icd file anywhere: the probe says where they were looked for and what to install."""
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    monkeypatch.setattr("tinygraft_opencl.probe.find_spec", lambda name: ModuleSpec(name, None))
    result = probe()
    assert not result.ok
    assert result.detail == f"no OpenCL driver is registered (no .icd file in {tmp_path})"
    assert "pip install pocl-binary-distribution" in result.hint


@pytest.mark.parametrize("answer", [[], Cl.Error("PLATFORM_NOT_FOUND_KHR")], ids=["none", "error"])
def test_no_platform(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver is registered and has no platform: the error says what to install."""

    class Silent(Cl):
        def get_platforms(self) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    monkeypatch.setattr(platforms, "binding", Silent)
    with pytest.raises(
        DeviceUnavailable, match="no OpenCL platform is available.*; install the OpenCL driver of your har"
    ):
        platforms.choose(0)


def test_no_platform_of_that_name(found: Any) -> None:
    """The error lists those that there are."""
    found(ALPHA, BETA)
    with (
        Context(OPENCL_PLATFORM="gamma"),
        pytest.raises(DeviceUnavailable, match="no OpenCL platform is called 'gamma'; there are: Alpha, Beta"),
    ):
        platforms.choose(0)


def test_no_device_of_that_name(found: Any) -> None:
    """The error lists those that there are, each with its platform."""
    found(ALPHA, BETA)
    with (
        Context(OPENCL_DEVICE="tpu"),
        pytest.raises(DeviceUnavailable, match="no OpenCL device is called 'tpu'; there are: small card on Alpha; gr"),
    ):
        platforms.choose(0)


def test_no_device_at_all(found: Any) -> None:
    """A platform without devices is named."""
    found(Platform("Empty"))
    with pytest.raises(DeviceUnavailable, match="no device on the OpenCL platforms Empty; install"):
        platforms.choose(0)


def test_no_such_ordinal(found: Any) -> None:
    """Of cards there are as many as there are; the error lists them."""
    found(ALPHA, BETA)
    with pytest.raises(DeviceUnavailable, match="there is no OpenCL device 3; there are 3: small card on Alpha; great"):
        platforms.choose(3)


def test_ordinals_number_devices_with_cards_first(found: Any) -> None:
    """Cards of all platforms come before processors; names choose among them."""
    found(BETA, ALPHA)
    assert [platforms.choose(k).name for k in range(3)] == ["small card", "great card", "processor"]
    with Context(OPENCL_DEVICE="great"):
        assert platforms.choose(0).name == "great card"
    with Context(OPENCL_PLATFORM="beta"):
        assert [platforms.choose(k).name for k in range(2)] == ["processor", "processor"]


def test_a_platform_that_cannot_work_is_left_out(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a linker another platform's device is opened, not PoCL's; a request for PoCL's says what it needs."""
    found(Platform(pocl.NAME, ("pthread", 2)), BETA)
    monkeypatch.setenv("PATH", "")
    assert platforms.choose(0).name == "processor"
    with (
        Context(OPENCL_DEVICE="pthread"),
        pytest.raises(
            DeviceUnavailable, match="PoCL needs the linker ld for every kernel, and none is on the PATH; in"
        ),
    ):
        platforms.choose(0)


@pytest.mark.needs("opencl")
def test_no_linker_is_an_error_and_no_crash(loops: OpenCLBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """PoCL would end the process: the probe, the opening and the compiler all look before."""
    if not pocl.is_pocl(loops.device.platform.name):
        pytest.skip("another platform links by itself")
    status, text = child(OPEN, PATH="", OPENCL_PLATFORM="Portable")
    assert status == 1
    assert "PoCL needs the linker ld for every kernel" in text
    assert "install binutils" in text
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CompileError, match="kernel k cannot be compiled: PoCL needs the linker ld"):
        loops.compiler.compile(Source("k", "__kernel void k() {}", "opencl", Signature(())))


UNKNOWN = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-generic"
REFUSAL = (
    f"PoCL cannot compile for pthread-new ({UNKNOWN}); this PoCL does not know the processor; install a newer one, or "
    "Intel's runtime (pip install intel-opencl-rt intel-cmplr-lib-rt, then set OCL_ICD_VENDORS="
    f"{sys.prefix}/lib/libintelocl.so)"
)


def pocl_with(version: str) -> Platform:
    """A platform of PoCL whose one device, a processor, gives that version."""
    platform = Platform(pocl.NAME, ("pthread-new", 2))
    platform.devices[0].version = version
    return platform


@pytest.fixture
def linker(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a linker, so that PoCL wants nothing else."""
    monkeypatch.setattr(pocl, "missing_linker", lambda: "")


@pytest.mark.usefixtures("linker")
def test_a_processor_that_pocl_does_not_know(found: Any) -> None:
    """Opening it is refused, with what to install; nothing of PoCL's is changed."""
    found(pocl_with(UNKNOWN))
    with pytest.raises(DeviceUnavailable) as caught:
        platforms.choose(0)
    assert str(caught.value) == REFUSAL


@pytest.mark.usefixtures("linker")
def test_another_platform_takes_the_processor_that_pocl_does_not_know(found: Any) -> None:
    """PoCL's device is not counted beside one that works, and an error that lists devices says why."""
    found(pocl_with(UNKNOWN), BETA)
    assert [platforms.choose(k).name for k in range(3)] == ["processor"] * 3
    found(pocl_with(UNKNOWN), ALPHA)
    with pytest.raises(DeviceUnavailable) as caught:
        platforms.choose(2)
    assert str(caught.value) == (
        "there is no OpenCL device 2; there are 2: small card on Alpha; great card on Alpha; "
        f"not pthread-new on Portable Computing Language: {REFUSAL}"
    )


@pytest.mark.usefixtures("linker")
@pytest.mark.parametrize(
    "version",
    [
        "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-znver3",
        "OpenCL 3.0 PoCL HSTR: cpu-aarch64-linux-generic",
    ],
)
def test_a_processor_that_pocl_knows(found: Any, version: str) -> None:
    """It is opened; where generic is a name that the compiler takes, that one too."""
    found(pocl_with(version))
    assert platforms.choose(0).name == "pthread-new"


@pytest.mark.needs("opencl")
def test_a_refused_processor_says_what_to_install(loops: OpenCLBackend) -> None:
    """Where a compiler refuses a processor all the same, its message is followed by what to do."""
    refused = "__kernel void k() {}\n#error \"unknown target CPU 'generic'\"\n"
    with pytest.raises(CompileError, match="this PoCL does not know the processor; install a newer one, or Intel's"):
        loops.compiler.compile(Source("k", refused, "opencl", Signature(())))


@pytest.mark.needs("opencl")
def test_a_kernel_for_an_unknown_processor_is_refused(loops: OpenCLBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler is not called for a processor that it cannot compile for."""
    monkeypatch.setattr(pocl, "why_unusable", lambda device: REFUSAL)
    with pytest.raises(CompileError) as caught:
        loops.compiler.compile(Source("k", "__kernel void k() {}", "opencl", Signature(())))
    assert str(caught.value).startswith(f"kernel k cannot be compiled: {REFUSAL}")


@pytest.mark.needs("opencl")
def test_a_setting_that_cannot_be() -> None:
    """An error about OPENCL_GROUPS lists its values."""
    with (
        Context(OPENCL_GROUPS="yes"),
        pytest.raises(SettingError, match="OPENCL_GROUPS must be 0, 1 or empty, got 'yes'"),
    ):
        OpenCLBackend("OPENCL", 0)


@pytest.mark.needs("opencl")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_is_told_and_does_not_hang() -> None:
    """A driver's threads are gone in a child: opening the device there is an error at once."""
    code = (
        "import os\nfrom tinygraft import Tensor\n"
        "print(Tensor([1.0], device='OPENCL').exp().tolist())\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n        Tensor([2.0], device='OPENCL').exp().tolist()\n"
        "    except Exception as error:\n        print(type(error).__name__, error, flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)"
    )
    status, text = child(code)
    assert status == 0
    assert "DeviceUnavailable" in text
    assert "OpenCL was used before this process was forked" in text


@pytest.mark.needs("opencl")
@pytest.mark.parametrize("what", ["synchronize", "read"])
def test_what_failed_on_the_device_says_that_it_is_lost(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting and reading raise DeviceLostError, with the driver's message, for what was launched before."""
    backend = OpenCLBackend("OPENCL", 0)
    error = platforms.binding().Error

    class Queue:
        def finish(self) -> None:
            raise error("clFinish failed: OUT_OF_RESOURCES")

    memory = backend.allocator.alloc(16)

    class Copy:
        def wait(self) -> None:
            raise error("clFinish failed: OUT_OF_RESOURCES")

    def read() -> None:
        backend.allocator.copy_out(memoryview(bytearray(16)), memory)

    monkeypatch.setattr(backend.queue, "queue", Queue())
    monkeypatch.setattr(backend.queue, "_copied", lambda *_, **__: ClEvent(backend.queue, Copy()))

    wait = backend.synchronize if what == "synchronize" else read
    with pytest.raises(DeviceLostError, match="^OPENCL failed while it computed: clFinish failed: OUT_OF_RESOURCES$"):
        wait()
