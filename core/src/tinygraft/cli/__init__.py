"""The commands: python -m tinygraft, or tinygraft."""
