"""Tensor and its methods, one file per theme."""
