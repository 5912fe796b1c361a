"""Level spec."""


class SpecLevel:
    """Tests of level spec."""
