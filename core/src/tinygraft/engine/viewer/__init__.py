"""The viewer: VIZ=1, `python -m tinygraft viz SCRIPT`, Context(VIZ=1).

live_record.py   what is shown, as it comes: kernels with their stages, schedules, launches, memory
packing.py       stages as JSON, compressed
page_news.py     what is new in the record since a page last asked
page_file.py     the page as one file: its frame, styles and scripts of page/, with all data or with none
page_server.py   serves the page and what is new to it, on loopback, to those who have the token
served.py        VIZ=1: the recording and the server of this process

`page/` has the page itself, in files of its own; dagre.min.js is @dagrejs/dagre 3.1.3 from npm (MIT, licence beside
it), unchanged, which lays out graphs. An open page asks for news twice a second, and a saved one has all of it.
"""
