"""What is installed beside core: entry points of distributions as records, and plugin probes in child processes.

Both devices and hooks are found here; `device/` and `hooks/` then load them.
"""
