"""EXAMPLE as a device of tinygraft."""
