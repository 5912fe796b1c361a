"""What is installed beside core: entry points of distributions as records, and trials of them in child processes.

Devices and hooks are both found here; what a record becomes after that is the business of those who own it.
"""
