"""Level optional."""


class OptionalLevel:
    """Tests of level optional."""
