"""The fixtures of tests that need a card (tests/support/card.py)."""

from card import backend, done, emulated, pair

__all__ = ["backend", "done", "emulated", "pair"]
