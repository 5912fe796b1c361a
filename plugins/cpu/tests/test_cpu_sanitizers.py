"""The native extension under ASan, UBSan and TSan, and C kernels under ASan and UBSan: nothing is found.

Each sanitizer is also given a fault of the kind that it is for, and finds it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sanitized import CHECKED, ROOT, Sanitizer, compiler

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.needs("cc", "ext")]
HERE = Path(__file__).parent
OF_EXTENSION = [HERE / "test_cpu_pool.py", HERE / "test_cpu_replay.py", "-m", "not faults"]
KINDS = ("address,undefined", "thread")
PYTEST = ("-q", "-s", "-p", "no:cacheprovider")


@pytest.fixture
def sanitizer(request: pytest.FixtureRequest, tmp_path: Path) -> Sanitizer:
    """Return the sanitizers that are requested, where the compiler has them."""
    found = Sanitizer(request.param, tmp_path)
    if why := found.missing():
        pytest.skip(why)
    return found


def of_c(flags: str) -> dict[str, str]:
    """Return settings by which kernels are C that is compiled with flags, and freed memory is not cached."""
    return {"CPU_COMPILER": "c", "CC": f"{' '.join(compiler())} {CHECKED} {flags}", "KEEP_MB": "0", "DEV": "CPU"}


# The extension


@pytest.mark.parametrize("sanitizer", KINDS, indirect=True)
def test_nothing_is_found_in_the_extension(sanitizer: Sanitizer) -> None:
    """All tests of the pool and of replays, forks and launching threads among them."""
    sanitizer.build()
    done = sanitizer.run("-m", "pytest", *PYTEST, *OF_EXTENSION, cwd=ROOT)
    assert sanitizer.findings() == []
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " skipped" not in done.stdout


FAULTS = {
    "a copy of nothing from nowhere": (
        "address,undefined", "else if (step->bytes) memcpy(", "else memcpy(",
        "test_a_copy_and_an_empty_buffer_are_steps", "runtime error: null pointer passed as argument",
    ),
    "a variable too much": (
        "address,undefined", "memcpy(values, variables, (size_t)count * sizeof *values)",
        "memcpy(values, variables, (size_t)(count + 99) * sizeof *values)", "test_a_variable",
        "AddressSanitizer",
    ),
    "nobody waits for the last part": (
        "thread", "- before < theirs; spins++)", "- before < theirs && spins < 0; spins++)",
        "test_launches_of_different_sizes_follow_each_other", "ThreadSanitizer: data race",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("sanitizer", "fault"), [(kinds, name) for name, (kinds, *_) in FAULTS.items()],
                         indirect=["sanitizer"], ids=FAULTS)  # fmt: skip
def test_a_fault_in_the_extension_is_found(sanitizer: Sanitizer, fault: str) -> None:
    """A fault is found by the test that runs into it; a race only where both threads run at once."""
    _, old, new, test, sentence = FAULTS[fault]
    sanitizer.build(old, new)
    for _ in range(6):
        sanitizer.run("-m", "pytest", *PYTEST, *OF_EXTENSION, "-k", test, cwd=ROOT)
        if any(sentence in text for text in sanitizer.findings()):
            return
    raise AssertionError(f"six runs found {sanitizer.findings()}")


# Kernels

KERNELS = (
    "(test_size and (float32 or int8 or bool)) or by_hand or action or part or variable or symbolic or private or "
    "movement or address or test_sum or product or shape or jit_replays or in_place"
)


@pytest.mark.parametrize("sanitizer", KINDS[:1], indirect=True)
def test_nothing_is_found_in_kernels_in_c(sanitizer: Sanitizer) -> None:
    """Kernels of the kit that read and write at computed indices, in memory that ends where a buffer ends."""
    sanitizer.build()
    kit = ("-p", "tinygraft.conformance.plugin", "--pyargs", "tinygraft.conformance", "--tinygraft-device", "CPU")
    script = ROOT / "tests" / "support" / "exact_memory.py"
    done = sanitizer.run(script, "pytest", *PYTEST, *kit, "-k", KERNELS, **of_c(sanitizer.flags))
    assert sanitizer.findings() == []
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert int(done.stdout.rpartition(" passed")[0].split()[-1]) > 150


@pytest.mark.parametrize("sanitizer", KINDS[:1], indirect=True)
def test_nothing_is_found_in_random_programs_in_c(sanitizer: Sanitizer) -> None:
    """Programs of the fuzzer, each compared with NumPy as well."""
    sanitizer.build()
    code = (
        "import sys, runpy, exact_memory; exact_memory.install(); sys.path.insert(0, sys.argv[1]); "
        "sys.argv = ['fuzz.py', '--seed', '5', '--programs', '12', '--devices', 'CPU']; "
        "runpy.run_path(sys.path[0] + '/fuzz.py', run_name='__main__')"
    )
    done = sanitizer.run("-c", code, ROOT / "tests" / "fuzz", **of_c(sanitizer.flags))
    assert sanitizer.findings() == []
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


PAST_THE_END = """
import exact_memory
exact_memory.install()
from tinygraft import Device, dtypes
from tinygraft.conformance.kernels import pack, run_linear
from tinygraft.conformance.linears import Build
b = Build("behind", (dtypes.float32, 5), (dtypes.float32, 5))
r = b.range(5)
b.store(0, r, b.load(1, r + 1))
b.end(r)
run_linear(Device["CPU"], b.done(), [bytes(20), pack([1.0] * 5, dtypes.float32)])
"""


@pytest.mark.parametrize("sanitizer", KINDS[:1], indirect=True)
def test_a_kernel_that_reads_past_the_end_is_found(sanitizer: Sanitizer) -> None:
    """A read of only the one element past its buffer is found too."""
    sanitizer.build()
    done = sanitizer.run("-c", PAST_THE_END, **of_c(sanitizer.flags))
    (text,) = sanitizer.findings()
    assert done.returncode != 0
    assert "heap-buffer-overflow" in text
    assert "READ of size 4" in text
    assert "20-byte region" in text
