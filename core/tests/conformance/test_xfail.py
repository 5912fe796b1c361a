"""conformance.toml: what is read, where it is looked for, and every way in which it can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tinygraft.conformance.xfail import FILE, Xfail, XfailError, check_used, find, read

ENTRY = '[[xfail]]\ntest = "test_a[1]"\nreason = "is bad"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A place for one."""
    return tmp_path / FILE


def test_entries_are_read(file: Path) -> None:
    """With their optional parts; a file without entries is empty, which is what one hopes for."""
    file.write_text(ENTRY + 'issue = "https://example.org"\ndevice = "mini"\n')
    (entry,) = read(file)
    assert entry == Xfail("test_a[1]", "is bad", "https://example.org", "mini")
    assert entry.text == "is bad (https://example.org)"
    file.write_text("# none\n")
    assert read(file) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[xfail", "conformance.toml cannot be read: "),
        ('[[skip]]\ntest = "a"\n', "conformance.toml has skip where only tables [[xfail]] may be"),
        ('xfail = "all"\n', "conformance.toml has xfail where only tables [[xfail]] may be"),
        ("xfail = [1]\n", "conformance.toml has xfail where only tables [[xfail]] may be"),
        (ENTRY + 'why = "x"\n', "[[xfail]] number 1 has 'why'; an entry has test, reason, issue, device"),
        (ENTRY + "issue = 7\n", "[[xfail]] number 1: issue is 7, not a string"),
        (ENTRY + '[[xfail]]\nreason = "x"\n', '[[xfail]] number 2 names no test; write test = "test_name[parameters]"'),
        ('[[xfail]]\ntest = "t"\n', '[[xfail]] number 1: t has no reason; write reason = "..." to say why it fails'),
    ],
)
def test_a_wrong_file_is_refused(file: Path, text: str, message: str) -> None:
    """With the file, the entry and what to write."""
    file.write_text(text)
    with pytest.raises(XfailError) as caught:
        read(file)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("device", "asked", "covers"),
    [
        ("", "MINI", True),
        ("mini", "MINI", True),
        ("MINI", "MINI:1", True),
        ("MINI:1", "MINI", False),
        ("A", "B", False),
    ],
)
def test_an_entry_may_be_for_one_device(device: str, asked: str, covers: bool) -> None:
    """One for a device is for all of its ordinals; one for an ordinal is for that alone."""
    assert Xfail("t", "r", device=device).covers("t", asked) is covers
    assert not Xfail("t", "r", device=device).covers("u", asked)


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    """Beside the tests or above them, no higher than the root; for tests from elsewhere, that of the root."""
    tests = tmp_path / "project" / "plugin" / "tests"
    tests.mkdir(parents=True)
    root, test = tmp_path / "project", tests / "test_x.py"
    assert find(test, root) is None
    (tmp_path / FILE).touch()
    assert find(test, root) is None
    (root / FILE).touch()
    assert find(test, root) == find(Path("/elsewhere/test_y.py"), root) == root / FILE
    (root / "plugin" / FILE).touch()
    assert find(test, root) == root / "plugin" / FILE


def test_an_entry_that_nothing_has_is_refused(file: Path) -> None:
    """With the closest name, where one is close."""
    entries = [Xfail("test_sums[int]", "r"), Xfail("zzz", "r", device="mini")]
    check_used(file, entries, set(entries), [])
    with pytest.raises(XfailError, match=r"no test is called test_sums\[int\]; did you mean test_sum\[int\]\?"):
        check_used(file, entries, {entries[1]}, ["test_sum[int]"])
    with pytest.raises(XfailError, match="no test of MINI is called zzz; take it out"):
        check_used(file, entries, {entries[0]}, ["test_sum[int]"])
