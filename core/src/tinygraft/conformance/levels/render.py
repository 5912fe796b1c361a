"""Level render."""


class RenderLevel:
    """Tests of level render."""
