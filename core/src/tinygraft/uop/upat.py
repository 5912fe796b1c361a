"""Patterns over graphs: UPat, rule, PatternMatcher and graph_rewrite, under the name by which people import them.

pattern.py has what a pattern can ask, matching.py when a node matches, rewrite.py how they are applied.
"""

from __future__ import annotations

from tinygraft.uop.pattern import UPat
from tinygraft.uop.rewrite import PatternMatcher, Rule, graph_rewrite, rule

__all__ = ["PatternMatcher", "Rule", "UPat", "graph_rewrite", "rule"]
