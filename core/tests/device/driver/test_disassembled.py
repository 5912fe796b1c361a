"""Machine code as text: what the program says, or a sentence that is a comment."""

import sys

from tinygraft.device.driver import disassembled as module
from tinygraft.device.driver.disassembled import disassembled

READ = [sys.executable, "-c", "import sys; print(open(sys.argv[1], 'rb').read())"]


def test_the_program_reads_the_code_from_a_file() -> None:
    """The file is the last word of its command."""
    assert disassembled(b"\x00\x01", "read", READ, "") == "b'\\x00\\x01'\n"


def test_a_program_that_fails_is_quoted(monkeypatch) -> None:
    """Its words, that it is not there, cannot be run, or takes too long: each a sentence, never an error."""
    fails = [sys.executable, "-c", "import sys; sys.exit('no such architecture')"]
    assert disassembled(b"", "dis", fails, "") == "// dis failed: no such architecture"
    assert disassembled(b"", "dis", [], "install it") == (
        "// the machine code cannot be shown: there is no dis; install it"
    )
    assert disassembled(b"", "dis", ["/no/such/program"], "").startswith("// dis failed: [Errno 2]")
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    waits = [sys.executable, "-c", "import time; time.sleep(9)"]
    assert "timed out after 0.05 seconds" in disassembled(b"", "dis", waits, "")
