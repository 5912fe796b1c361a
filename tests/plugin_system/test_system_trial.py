"""The trial of a third party's spec in a child process before the automatic choice imports it, and its verdict."""

import json
import os
import sys
import time
import warnings
from pathlib import Path

import pytest

from tinygraft import config
from tinygraft.device import default_choice, device_probe
from tinygraft.device.device_probe import examine
from tinygraft.errors import DeviceFallbackWarning, DeviceUnavailable
from tinygraft.installed import plugin_probe
from tinygraft.installed.records import Status


@pytest.fixture(autouse=True)
def _no_surprises(monkeypatch):
    """A warning that a test does not expect is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeviceFallbackWarning)
        yield


def trial_file(tmp_path) -> Path:
    """The only verdict on disk."""
    (file,) = (tmp_path / "cache").glob("trial-*.json")
    return file


def test_a_plugin_that_kills_its_process(fakes):
    """A spec that dies by a signal is a record with the signal's name, and this process goes on."""
    fakes.add("CRASH", "#!\nimport os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n", priority=100)
    fakes.add("TOY")
    registry = fakes.registry()
    with pytest.warns(DeviceFallbackWarning, match="loading it in a child process ended it by SIGSEGV"):
        assert registry.DEFAULT == "TOY"
    (crash,) = [r for r in registry.records() if r.name == "CRASH"]
    assert crash.status is Status.BROKEN
    assert crash.hint == "pip uninstall tinygraft-crash, or set TINYGRAFT_DISABLE_PLUGINS=CRASH"


def test_looking_at_what_works_imports_no_third_party(fakes):
    """The devices that work here are told by their trials: one that kills its process does not end this one."""
    crash = fakes.add("CRASH", "#!\nimport os; os.abort()\n")
    fakes.add("GONE", "def probe():\n    return Probe(ok=False, detail='no card')\n")
    toy = fakes.add("TOY")
    assert fakes.registry().get_available_devices() == ["TOY"]
    assert not {crash, toy} & set(sys.modules)


def test_a_plugin_that_ends_its_process_quietly(fakes):
    """os._exit in a spec is noticed by the missing answer."""
    fakes.add("QUIET", "#!\nimport os; os._exit(0)\n")
    fakes.add("TOY")
    with pytest.warns(DeviceFallbackWarning, match="ended it with exit code 0 and no answer"):
        assert fakes.registry().DEFAULT == "TOY"


def test_a_plugin_that_hangs(fakes, monkeypatch):
    """A spec that takes longer than the limit is broken; its process is ended."""
    monkeypatch.setattr(plugin_probe, "LIMIT", 2.0)
    fakes.add("HANG", "#!\nimport time; time.sleep(3600)\n")
    fakes.add("TOY")
    with pytest.warns(DeviceFallbackWarning, match="loading it in a child process took more than 2 s"):
        assert fakes.registry().DEFAULT == "TOY"


def test_what_a_plugin_prints_does_not_disturb_the_trial(fakes):
    """A spec may print; the answer of the child is told apart."""
    fakes.add("LOUD", "print('hello')\nimport os; os.write(1, b'{}')\n")
    assert fakes.registry().DEFAULT == "LOUD"


def test_a_verdict_is_kept_on_disk(fakes, tmp_path, monkeypatch):
    """One trial serves later processes, until the distribution's RECORD changes."""
    fakes.add("TOY")
    assert fakes.registry().DEFAULT == "TOY"
    kept = json.loads(trial_file(tmp_path).read_text())
    assert (kept["status"], kept["facts"]) == (
        "available",
        {"priority": 50, "ordinals": 1, "warns": False, "by_setting": False},
    )
    with monkeypatch.context() as patch:
        patch.setattr(plugin_probe, "_try_in_child", lambda *_: pytest.fail("tried again"))
        assert fakes.registry().DEFAULT == "TOY"
    (record,) = fakes.folder.glob("*.dist-info/RECORD")
    record.write_text("changed,,\n")
    assert fakes.registry().DEFAULT == "TOY"
    assert len(list((tmp_path / "cache").glob("trial-*.json"))) == 2


@pytest.mark.parametrize("content", [b"", b"\0\xff", b"{}", b"[]", b'{"status": "fine"}', b'"x"'])
def test_a_corrupt_verdict_is_no_verdict(fakes, tmp_path, content):
    """A file that cannot be read is written anew."""
    fakes.add("TOY")
    assert fakes.registry().DEFAULT == "TOY"
    trial_file(tmp_path).write_bytes(content)
    assert fakes.registry().DEFAULT == "TOY"
    assert json.loads(trial_file(tmp_path).read_text())["status"] == "available"


def test_a_bad_verdict_is_forgotten_after_a_while(fakes, tmp_path, monkeypatch):
    """What did not work once may work later: such a verdict is kept for ten minutes, and no command believes it."""
    monkeypatch.setattr(plugin_probe, "LIMIT", 0.0)
    fakes.add("TOY")
    with pytest.raises(DeviceUnavailable, match="took more than 0 s"):
        fakes.registry().DEFAULT  # noqa: B018
    monkeypatch.undo()
    file = tmp_path / "cache" / trial_file(tmp_path).name
    kept = json.loads(file.read_text())
    assert plugin_probe._read(file) is not None
    file.write_text(json.dumps(kept | {"when": kept["when"] - 500}))
    assert plugin_probe._read(file) is not None
    file.write_text(json.dumps(kept | {"when": kept["when"] - 601}))
    assert plugin_probe._read(file) is None
    file.write_text(json.dumps(kept | {"status": "available", "when": 0.0}))
    assert plugin_probe._read(file) is not None


def test_who_looks_closely_looks_anew(fakes, tmp_path):
    """`devices` gives a trial its own limit, and then no verdict on disk is believed; the new one is kept."""
    fakes.add("TOY")
    assert fakes.registry().DEFAULT == "TOY"
    file = trial_file(tmp_path)
    kept = json.loads(file.read_text())
    file.write_text(json.dumps(kept | {"status": "broken", "detail": "of yesterday", "when": time.time()}))
    (record,) = fakes.registry().records()
    examine(record)
    assert (record.status, record.detail) == (Status.BROKEN, "of yesterday")
    (record,) = fakes.registry().records()
    examine(record, 20.0)
    assert (record.status, record.detail) == (Status.AVAILABLE, "found")
    assert json.loads(file.read_text())["status"] == "available"


def test_a_verdict_by_a_setting_is_not_kept(fakes, tmp_path, monkeypatch):
    """A plugin that refuses the value of a setting is tried again by the next process."""
    fakes.add("TOY", "from tinygraft.plugin import Setting\nSIZE = Setting('TOY_SIZE', 1, 'how large')\n")
    monkeypatch.setenv("TOY_SIZE", "huge")
    with pytest.raises(DeviceUnavailable, match="TOY_SIZE must be an integer, got 'huge'"):
        fakes.registry().DEFAULT  # noqa: B018
    assert not list((tmp_path / "cache").glob("trial-*.json"))


def test_several_unknown_plugins_are_tried_at_once(fakes, monkeypatch):
    """Trials of third parties overlap, so that two slow ones cost as much as one."""
    running, most = set(), []

    def tried(record):
        running.add(record.name)
        time.sleep(0.1)
        most.append(len(running))
        running.discard(record.name)

    monkeypatch.setattr(device_probe, "examine", tried)
    for name in ("ONE", "TWO", "THREE"):
        fakes.add(name)
    default_choice.probe_all(fakes.registry().records())
    assert max(most) > 1


@pytest.mark.skipif(os.name != "posix", reason="permissions work otherwise there")
def test_an_unwritable_cache_stops_nothing(fakes, tmp_path, setting):
    """Where nothing can be kept, each process tries for itself."""
    (tmp_path / "file").write_text("")
    setting(config.CACHEDIR, str(tmp_path / "file" / "below"))
    fakes.add("TOY")
    assert fakes.registry().DEFAULT == "TOY"


def test_cachelevel_0_keeps_no_verdict(fakes, tmp_path, setting):
    """CACHELEVEL=0 writes nothing."""
    setting(config.CACHELEVEL, 0)
    fakes.add("TOY")
    assert fakes.registry().DEFAULT == "TOY"
    assert not (tmp_path / "cache").exists()


def test_no_verdict_is_kept_of_an_editable_install(fakes, tmp_path):
    """The RECORD of an editable install does not change with its code, so its verdict is not kept."""
    fakes.add("TOY")
    (info,) = fakes.folder.glob("*.dist-info")
    (info / "direct_url.json").write_text('{"url": "file:///x", "dir_info": {"editable": true}}')
    assert fakes.registry().DEFAULT == "TOY"
    assert not list((tmp_path / "cache").glob("trial-*.json"))


def test_an_explicit_request_imports_what_failed_in_the_child(fakes):
    """The verdict of a child binds the automatic choice only: who asks by name gets the real thing."""
    fakes.add("MOODY", f"import os\nif os.getpid() != {os.getpid()}: os._exit(1)\n")
    registry = fakes.registry()
    with pytest.raises(DeviceUnavailable, match="ended it with exit code 1"):
        registry.DEFAULT  # noqa: B018
    assert registry["MOODY"].name == "MOODY"


def test_where_no_child_can_be_started(fakes, monkeypatch):
    """Inside a program that is not Python, or where no process may be made, specs are loaded here."""
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    module = fakes.add("TOY")
    assert fakes.registry().DEFAULT == "TOY"
    assert module in sys.modules


def test_specs_of_ours_need_no_trial(fakes):
    """A distribution of the closed table is loaded here at once."""
    fakes.add("OPENCL", distribution="tinygraft-opencl", module="toy_opencl", priority=100)
    registry = fakes.registry()
    assert registry.DEFAULT == "OPENCL"
    (record,) = registry.records()
    assert set(record.milliseconds) == {"load", "probe", "open"}
