"""A folder for scripts of older versions: `symbolic.py` has the names that they import from there."""
