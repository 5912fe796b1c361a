"""Findings about the disk, by their numbers: 3.5 and 3.6.

Whom the cache folder and its files belong to, what is there and is no file, and what killed processes have left.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from new_process import ADD, cached_files, compiler, run
from tinygraft import Context, Tensor, caches
from tinygraft.engine import database, diskcache, pack
from tinygraft.installed import plugin_probe
from tinygraft.nn.state import safe_save
from tinygraft.temporary import temporary_name

FOUND = database.SearchResult("kernel", "target", "compiler", "name", "", 2.0, 1.0)
needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="gives a file to another user")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder for this process, of which nothing was reported yet."""
    monkeypatch.setattr(caches, "_reported", set())
    found = tmp_path / "cache"
    with Context(TINYGRAFT_CACHE=str(found), CACHELEVEL=1):
        yield found


# 3.5


def refused(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What is reported of a folder, once, while nothing is kept there."""
    name = diskcache.digest("x")
    for _ in range(3):
        diskcache.put(name, b"code")
        assert diskcache.get(name) is None
    assert not (path / "kernels").exists()
    text = capsys.readouterr().err
    assert text.count("is not used as a cache") == 1
    return text


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o722, 0o1777])
def test_3_5_a_folder_that_others_can_write(folder: Path, mode: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Everybody or a group: it is not used, which is reported once."""
    folder.mkdir()
    folder.chmod(mode)
    assert refused(folder, capsys) == (
        f"tinygraft: {folder} is not used as a cache: others can write it (mode {mode:o}); chmod go-w makes it safe "
        "from now on\n  hint: name another folder with TINYGRAFT_CACHE, or remove this one\n"
    )
    folder.chmod(0o755)
    diskcache.put(diskcache.digest("x"), b"code")
    assert diskcache.get(diskcache.digest("x")) == b"code"


@needs_root
def test_3_5_a_folder_of_another_user(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever owns it can put there what this process would run."""
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    assert "it belongs to user 12345, this process to user 0\n" in refused(folder, capsys)


@needs_root
def test_3_5_a_shared_object_of_another_user_is_not_run(tmp_path: Path) -> None:
    """The finding: a folder of mode 777, filled by another user. The kernel is compiled anew, and nothing is kept."""
    run(ADD, tmp_path / "cache")
    before = {path: path.read_bytes() for path in cached_files(tmp_path / "cache")}
    assert before
    for path in [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]:
        os.chown(path, 12345, 12345)
        path.chmod(0o777)
    code = f"{ADD}\nfrom tinygraft import GlobalCounters\nprint(GlobalCounters.kernels_compiled)"
    done = run(code, tmp_path / "cache")
    assert done.stdout == "1\n"
    assert done.stderr.count("is not used as a cache") == 1
    assert {path: path.read_bytes() for path in cached_files(tmp_path / "cache")} == before


@pytest.mark.parametrize("harm", ["writable", "owner", "renamed"])
def test_3_5_a_file_that_is_not_this_users_alone(folder: Path, harm: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In a folder of one's own: a file that others can write, that another owns, or that has another's name."""
    name, other = diskcache.digest("x"), diskcache.digest("y")
    diskcache.put(name, b"code")
    diskcache.put(other, b"other code")
    path = folder / "kernels" / name[:2] / name[2:]
    if harm == "writable":
        path.chmod(0o666)
    elif harm == "renamed":
        shutil.copy(folder / "kernels" / other[:2] / other[2:], path)
    elif os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        pytest.skip("gives a file to another user")
    assert [diskcache.get(name), diskcache.get(name)] == [None, None]
    assert capsys.readouterr().err.count(f"{path} is not used as a cache") == (harm != "renamed")
    assert diskcache.get(other) == b"other code"


def test_3_5_many_files_that_others_can_write_are_said_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A whole cache that somebody copied without its rights would fill the screen."""
    for number in range(5):
        diskcache.put(f"ab{number}", b"kernel")
        os.chmod(folder / "kernels" / "ab" / str(number), 0o666)
        assert diskcache.get(f"ab{number}") is None
    text = capsys.readouterr().err
    assert text.count("is not used as a cache") == 1
    assert "; others like it are skipped in silence\n" in text


def test_3_5_a_cache_that_cannot_be_made_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """TINYGRAFT_CACHE names a file, or what is in one."""
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(caches, "_reported", set())
    for name in ("file", "file/in it"):
        with Context(TINYGRAFT_CACHE=str(tmp_path / name)):
            assert caches.cache_folder() is caches.cache_folder() is None
    text = capsys.readouterr().err
    assert text.count("is not used as a cache: there is no such folder, and none can be made: ") == 2


def test_3_5_what_is_written_is_private(folder: Path) -> None:
    """Whatever the umask permits, nobody else can write what is cached."""
    before = os.umask(0)
    try:
        diskcache.put(diskcache.digest("x"), b"code")
        database.add(FOUND, database.own_file())
    finally:
        os.umask(before)
    assert diskcache.get(diskcache.digest("x")) == b"code"
    assert list(database.read().values()) == [FOUND]
    assert not [path for path in (folder, *folder.rglob("*")) if path.is_file() and path.stat().st_mode & 0o022]
    assert folder.stat().st_mode & 0o077 == 0


# 3.6


def odd_files(path: Path) -> Iterator[str]:
    """Makes a path one thing after another that is no plain file of a sensible length."""
    plain = path.read_bytes() if path.exists() else b"plain"
    aside = path.with_name("aside")
    for kind in ("/dev/zero", "link", "pipe", "folder", "deep", "huge"):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
        if kind == "/dev/zero":
            path.symlink_to(kind)
        elif kind == "link":
            aside.write_bytes(plain)
            path.symlink_to(aside)
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        elif kind == "deep":
            path.write_bytes(b"[" * 100_000 + b"\n" + b'{"a":' * 100_000)
        else:
            path.write_bytes(b"")
            os.truncate(path, 1 << 40)
        yield kind
    path.unlink()


def test_3_6_an_entry_that_is_no_plain_file(folder: Path) -> None:
    """A link, a pipe, a folder, nonsense or a terabyte are as good as no entry, and are replaced but for the folder."""
    name = diskcache.digest("x")
    diskcache.put(name, b"code")
    for kind in odd_files(folder / "kernels" / name[:2] / name[2:]):
        assert diskcache.get(name) is None, kind
    for kind in odd_files(folder / "kernels" / name[:2] / name[2:]):
        diskcache.put(name, b"code")
        assert diskcache.get(name) == (None if kind == "folder" else b"code"), kind
        if kind == "/dev/zero":
            assert Path("/dev/zero").is_char_device()


def test_3_6_a_database_that_is_no_plain_file(folder: Path, tmp_path: Path) -> None:
    """Of one's own or named by BEAM_DATABASE: what is odd is passed over, and what the other has is found."""
    folder.mkdir(mode=0o700)
    own, named = folder / "tuned.jsonl", tmp_path / "named.jsonl"
    database.add(FOUND, named)
    with Context(BEAM_DATABASE=str(named)):
        for kind in odd_files(own):
            assert list(database.read().values()) == [FOUND], kind
            database.state()
            if kind not in ("/dev/zero", "huge"):
                database.add(FOUND, own)
    database.add(FOUND, own)
    named.unlink()
    with Context(BEAM_DATABASE=str(named)):
        for kind in odd_files(named):
            assert list(database.read().values()) == [FOUND], kind


def test_3_6_deep_lines_among_good_ones(folder: Path) -> None:
    """A line that nests 100,000 lists is passed over, the lines around it hold."""
    database.add(FOUND, database.own_file())
    with (folder / "tuned.jsonl").open("a") as file:
        file.write("[" * 100_000 + "\n" + '{"a":' * 100_000 + "\n")
    other = database.SearchResult("other", "target", "compiler", "name", "", 2.0, 1.0)
    database.add(other, database.own_file())
    assert list(database.read().values()) == [FOUND, other]


def test_3_6_a_pack_and_a_verdict_that_are_odd(folder: Path) -> None:
    """What plans and trials of plugins have on disk may be anything."""
    for data in (b"[" * 100_000, b'{"kernels":' + b"[" * 100_000, b"[]", b"1", b"null", b'{"kernels": [[1]]}', b"\xff"):
        diskcache.put("ab" * 24, data)
        assert pack.read("ab" * 24, []) is None
    (folder / "verdict").write_text(
        json.dumps({"status": "loaded", "detail": "", "hint": "", "traceback": "", "when": 1.0})
    )
    assert plugin_probe._read(folder / "verdict") is not None
    for _ in odd_files(folder / "verdict"):
        assert plugin_probe._read(folder / "verdict") is None


def test_3_6_a_verdict_on_tile_units_that_is_odd(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU's verdict on its units for tiles: asked anew where the file is none."""
    from tinygraft_cpu import tiles

    folder.mkdir(mode=0o700)
    monkeypatch.setattr(tiles, "_file", lambda *_: folder / "tiles.json")
    monkeypatch.setattr(tiles, "try_in_child", lambda *_: "tried")
    ask = tiles._verdict.__wrapped__
    for kind in odd_files(folder / "tiles.json"):
        assert ask("llvm", ("x",)) == "tried", kind


def started(command: list[str], ready: Callable[[], bool], **settings: str) -> subprocess.Popen[bytes]:
    """A process that has come so far as ready says; what it has then stays until it is killed."""
    process = subprocess.Popen(command, env=os.environ | {"SPEC": "0"} | settings, start_new_session=True)
    for _ in range(1200):
        if ready():
            return process
        assert process.poll() is None
        time.sleep(0.05)
    raise AssertionError(f"{command} runs, and did not come so far in a minute")


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process, and what it has started, without a word."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def aged(folder: Path) -> None:
    """Let a folder be two minutes old."""
    os.utime(folder, (time.time() - 120,) * 2)


def test_3_6_a_folder_whose_lock_is_about_to_be_taken_stays(tmp_path: Path) -> None:
    """Between the making of the lock's file and the lock, another process found a folder that nobody had, and removed
    it: the compiler's output was not there then (the fuzzer met it once in 27,000 programs beside a whole test run)."""
    from tinygraft_cpu import scratch

    for name in ("young", "old"):
        (tmp_path / f"tinygraft-cc-{name}").mkdir()
        (tmp_path / f"tinygraft-cc-{name}" / "lock").touch()
    aged(tmp_path / "tinygraft-cc-old")
    scratch.remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["tinygraft-cc-young"]


@pytest.mark.slow
@pytest.mark.needs("cc")
def test_3_6_folders_of_a_killed_compilation_go_at_the_next_start(tmp_path: Path) -> None:
    """A process that is killed while its C compiler works leaves a folder, which the next one removes; no other's."""
    system = tmp_path / "tmp"
    system.mkdir()
    cc = compiler(tmp_path / "cc", "sleep 100")
    settings = {"TMPDIR": str(system), "CPU_COMPILER": "c", "CPU_TILES": "0", "CACHELEVEL": "0", "DEV": "CPU"}
    users = system / "tinygraft-cc-mine"
    users.mkdir()
    (users / "notes").write_text("a folder without a lock that was just made")

    def folders() -> set[str]:
        # Python itself makes a file here for a moment, to try the place
        return {name for name in os.listdir(system) if name.startswith("tinygraft-cc-") and name != users.name}

    killed = started([sys.executable, "-c", ADD], lambda: bool(folders()), CC=cc, **settings)
    left = folders()
    kill(killed)
    assert folders() == left
    for name in left:
        aged(system / name)
    living = started([sys.executable, "-c", ADD], lambda: bool(folders() - left), CC=cc, **settings)
    try:
        theirs = folders()
        assert not left & theirs
        for name in theirs:
            aged(system / name)
        run(ADD, tmp_path / "cache", **(settings | {"CC": "cc"}))
        assert folders() == theirs
    finally:
        kill(living)
    for name in theirs:
        aged(system / name)  # the last process looked into it
    run(ADD, tmp_path / "cache", **(settings | {"CC": "cc"}))
    assert os.listdir(system) == [users.name]


WRITE = """
import sys, time
from pathlib import Path
from tinygraft.files import replacing, write_atomic
with replacing(sys.argv[1]) as file:
    file.write(bytes(8 << 20))
    file.flush()
    time.sleep(100)
"""


def test_3_6_a_killed_save_is_removed_at_the_next_one(tmp_path: Path) -> None:
    """The temporary file of a process that was killed goes with the next save into the folder, under any name."""

    def half() -> list[str]:
        return [name for name in os.listdir(tmp_path) if (tmp_path / name).stat().st_size == 8 << 20]

    for number in range(2):
        kill(started([sys.executable, "-c", WRITE, str(tmp_path / f"{number}.bin")], lambda: len(half()) == 1))
        assert len(half()) == 1
        safe_save({"a": Tensor([1.0], device="PYTHON")}, tmp_path / "other.bin")
        assert os.listdir(tmp_path) == ["other.bin"]


def test_3_6_what_was_half_written_to_the_cache_goes_at_the_next_start(folder: Path) -> None:
    """Temporary files of the disk cache that no process writes are removed when a process first looks there."""
    diskcache.put(diskcache.digest("x"), b"code")
    left = [folder / temporary_name("verdict.json"), folder / "kernels" / temporary_name("ab")]
    for path in left:
        path.write_bytes(b"half")
    run("from tinygraft.engine import diskcache; diskcache.get('ab' * 24)", folder)
    assert not any(path.exists() for path in left)
