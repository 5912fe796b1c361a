"""The package benchmarks stands at the root of the checkout and is not installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
