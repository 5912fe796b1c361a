"""Profiles: PROFILE=1 and `python -m tinygraft profile SCRIPT`.

profile_run.py     a Profile records every event of a run; PROFILE=1 does so from the first value on
time_spent.py      where the time of a thread went, without counting anything twice
profile_report.py  what is printed: the time by stage, the kernels by module and by line, the peak of memory
perfetto.py        the run as a trace file for ui.perfetto.dev or chrome://tracing
"""
