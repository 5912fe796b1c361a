"""Reading the linear form, re-exported from uop.linear, where renderers (a lower layer) can reach it too."""

from tinygraft.uop.linear import Lane, copies, lane_stride, ranges_of

__all__ = ["Lane", "copies", "lane_stride", "ranges_of"]
