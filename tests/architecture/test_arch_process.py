"""No package writes into memory that belongs to another program, such as a driver's."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [file for folder in ("core", "plugins") for file in sorted((ROOT / folder).glob("**/src/**/*.py"))]
DOORS = re.compile(r"/proc/(self|\{?\w+\}?)/mem\b|process_vm_writev|\bptrace\b|WriteProcessMemory|vm_write")


def test_no_door_to_the_memory_of_a_process() -> None:
    """What writes past the interfaces of a driver is in no source: a driver that cannot work is refused instead."""
    assert len(SOURCES) > 100
    assert [str(file) for file in SOURCES if DOORS.search(file.read_text())] == []


@pytest.mark.parametrize("text", ["/proc/self/mem", "/proc/{pid}/mem", "libc.process_vm_writev", "/proc/1/mem"])
def test_the_search_sees_doors(text: str) -> None:
    """Each spelling is found, and files that only describe memory are not."""
    assert DOORS.search(f'os.open("{text}", 2)')
    assert not DOORS.search("/proc/meminfo /proc/self/maps /proc/self/smaps")
