"""Headers: their bytes, and what is said where they differ."""

from tinygraft.collectives.headers import KINDS, RankHeader, calling_line, difference
from tinygraft.collectives.rank_sums import RANK_OPS
from tinygraft.dtype import BY_NAME


def test_every_header_is_what_it_was():
    """All kinds, dtypes and ops go through bytes and back; of a long line the end is kept."""
    for kind in KINDS:
        for dtype in (None, *BY_NAME.values()):
            for op in ("", *RANK_OPS):
                header = RankHeader(2**40, kind, dtype, op, 4095, 2**50, "folder/script.py:12")
                assert len(header.pack()) == 128
                assert RankHeader.unpack(header.pack()) == header
    long = RankHeader(1, "barrier", None, "", -1, 0, "x" * 300 + "script.py:12")
    assert RankHeader.unpack(long.pack()).line.endswith("script.py:12")
    assert len(long.pack()) == 128


def test_lines_may_differ():
    """Ranks may call the same from two lines, as in the branches of an if."""
    one, other = (RankHeader(1, "barrier", None, "", -1, 0, f"a.py:{line}") for line in (3, 5))
    assert difference([one, other]) == ""


def test_the_first_difference_is_named():
    """Of several ranks rank 0 and the first that differs are named."""
    same = RankHeader(1, "broadcast", BY_NAME["float32"], "", 2, 7, "a.py:3")
    other = RankHeader(1, "end", None, "", -1, 0, "")
    assert difference([same, same, other, other]) == (
        "rank 0 calls broadcast of 7 float from rank 2 at a.py:3, and rank 2 ends"
    )


def test_shapes_are_compared_and_named():
    """Equal counts of other shapes differ, also where the texts are longer than there is room for."""
    calls = [
        RankHeader(1, "all_reduce", BY_NAME["float32"], "sum", -1, 6, "a.py:3", text) for text in ("(2, 3)", "(6,)")
    ]
    assert difference(calls) == (
        "rank 0 calls all_reduce (sum) of 6 float in shape (2, 3) at a.py:3, and rank 1 calls all_reduce (sum) "
        "of 6 float at a.py:3"
    )
    assert [RankHeader.unpack(call.pack()) for call in calls] == calls
    long = [
        RankHeader(1, "barrier", None, "", -1, 0, "x" * 90 + "a.py:3", str((1,) * 40 + last))
        for last in ((2, 3), (3, 2))
    ]
    assert len(long[0].pack()) == 128
    there = [RankHeader.unpack(call.pack()) for call in long]
    assert difference(there)
    assert there[0].line.endswith("a.py:3")


def test_the_line_is_the_users_below_a_device():
    """A device that launches a replayed collective is between; its package is tinygraft_NAME."""
    spaces = [{"__name__": name, "calling_line": calling_line} for name in ("script", "tinygraft_some.program")]
    user, device = spaces
    exec(compile("def launch(): return calling_line()", "program.py", "exec"), device)
    user["launch"] = device["launch"]
    exec(compile("\n\nfound = launch()", "script.py", "exec"), user)
    assert user["found"] == "script.py:3"
