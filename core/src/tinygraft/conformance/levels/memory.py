"""Level memory."""


class MemoryLevel:
    """Tests of level memory."""
