"""Run on a Mac what the tests run on the emulated Metal, and measure first speeds.

    python plugins/metal/tests/on_a_card.py [--minutes 30] [--out FOLDER] [--only PART,...] [--short]

It needs macOS, this checkout, and a Python with numpy, pyobjc-framework-Metal and pytest (for the digits also
scikit-learn, matplotlib and tqdm); it installs nothing and asks no network. The last line is a verdict. The file
card.json in FOLDER (out) has the GPU, the versions, and what every part said: send it back, also where a part failed.
Exit code 0: every part passed, or says why it was left out.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from card_parts import PYTEST, Card, Part, main  # noqa: E402

KIT = ["-m", "tinygraft", "conformance", "--device", "METAL"]
QUICK = ["-k", "barrier or graph or event or view"]
SEEDS = [str(file) for file in sorted((ROOT / "tests" / "seeds").glob("test_*.py"))]
ABOUT = """
import gc
import json
from tinygraft import Device, Tensor
backend = Device["METAL"]
assert (Tensor([1, 2, 3], device="METAL") * 2).tolist() == [2, 4, 6]
print(backend.about())
before = backend.device.currentAllocatedSize()
backend.allocator.free(backend.allocator.alloc(1 << 26), 1 << 26)
gc.collect()
stays = int(backend.device.currentAllocatedSize()) - int(before)
about = {"card": str(backend.card), "facts": str(backend.facts), "macos": backend.compiler.version, "stays": stays}
print(json.dumps(about))
assert stays < 1 << 26, "memory that was freed is still allocated: PyObjC retains it"
"""


def parts() -> dict[str, Part]:
    """Each part of the run."""
    default = {"DEV": "METAL"}
    return {
        "open": Part(["-c", ABOUT], {}, 10),
        "quick kit": Part([*KIT, "--level", "spec,render,memory,optional,program"], {}, 25, short=QUICK),
        "values": Part([*KIT, "--level", "ops"], {}, 30, short=["-k", "as_written"]),
        "launches again": Part([*KIT, "--level", "optional"], {"METAL_ICB": "0"}, 15, short=QUICK),
        "seeds": Part([*PYTEST, "-m", "not long", *SEEDS], default, 20, short=["-k", "quick_reference"]),
        "digits": Part(["examples/train_digits.py", "--out", "OUT"], default, 15, short=["--epochs", "1"]),
        "speed": Part([str(ROOT / "tests" / "support" / "speed_on_a_card.py")], {"CARD_DEVICE": "METAL"}, 10),
    }


def left_out(name: str, path: str) -> str:
    """Why a part is not run here; "" where it is."""
    missing = [package for package in ("sklearn", "matplotlib", "tqdm") if find_spec(package) is None]
    return f"{', '.join(missing)} cannot be imported" if name == "digits" and missing else ""


if __name__ == "__main__":
    sys.exit(main(Card("metal", parts(), left_out, minutes=30), __doc__ or ""))
