"""Level program."""


class ProgramLevel:
    """Tests of level program."""
