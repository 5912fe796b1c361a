"""Profiles: PROFILE=1 and `python -m tinygraft profile SCRIPT`.

profile_run.py     a Profile records every event of a run
profile_end.py     what is done at its end; PROFILE=1 profiles from the first value on
makings.py         which module a line is in, what is computed row by row or in float64, as graphs are made
how_made.py        sentences about that, and about memory that grows
time_spent.py      where the time of a thread went, without counting anything twice
profile_report.py  what is printed: the time by stage, the kernels by module and by line, the peak of memory
perfetto.py        the run as a trace file for ui.perfetto.dev or chrome://tracing
"""
