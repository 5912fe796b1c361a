"""Level ops."""


class OpsLevel:
    """Tests of level ops."""
