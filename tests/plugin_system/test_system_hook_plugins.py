"""Installed hook plugins: found, tried, loaded and listed; a bad one is a record."""

import json
import os
import sys
import warnings

import pytest

from hooked import values
from tinygraft import config
from tinygraft.cli.main import main
from tinygraft.errors import HookError
from tinygraft.hooks.manager import here
from tinygraft.installed.records import Status

LISTENS = "told = []\n@hookimpl\ndef tinygraft_on_launch(event):\n    told.append(event.name)\n"


def test_an_installed_plugin_is_loaded_by_the_first_realize(fakes, installed_hooks):
    """A distribution with an entry point of the group is found, tried in a child process, imported and called."""
    module = fakes.add_hooks(LISTENS)
    assert [(r.name, r.status) for r in here.records()] == [("extra", Status.DECLARED)]
    assert module not in sys.modules
    values(1, 2)
    (record,) = here.records()
    assert (record.status, record.detail, record.provided_by) == (Status.LOADED, "on_launch", "tinygraft-extra 1.0")
    assert sys.modules[module].told == ["E_2"]


@pytest.mark.parametrize(
    ("code", "status", "sentence"),
    [
        ("raise OSError('wrecked')", Status.BROKEN, "OSError: wrecked"),
        ("raise SystemExit(3)", Status.BROKEN, "SystemExit: 3"),
        ("raise KeyboardInterrupt", Status.BROKEN, "KeyboardInterrupt"),
        ("import os; os.abort()", Status.BROKEN, "loading it in a child process ended it by SIGABRT"),
        ("from tinygraft.plugin import Teleporter", Status.INCOMPATIBLE, "it wants something that this tinygraft"),
        ("x = 1", Status.INVALID, "it implements no hook"),
        ("@hookimpl\ndef tinygraft_on_lunch(event): pass", Status.INVALID, "there is no hook tinygraft_on_lunch"),
        ("@hookimpl\ndef tinygraft_on_launch(event, name): pass", Status.INVALID, "for hook 'tinygraft_on_launch'"),
    ],
)
@pytest.mark.skipif(os.name != "posix", reason="no signals here")
def test_a_bad_plugin_is_a_record(fakes, installed_hooks, code, status, sentence):
    """A plugin that cannot be loaded is a record with its reason and one warning; the program computes."""
    module = fakes.add_hooks(code)
    with pytest.warns(RuntimeWarning, match="the hooks of tinygraft-extra 1.0 cannot be used: .*doctor"):
        assert values(1, 2) == [4, 6]
    (record,) = here.records()
    assert (record.status, sentence in record.detail) == (status, True)
    assert module not in sys.modules
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert values(3, 4) == [8, 10]


def test_strict_makes_a_bad_plugin_an_error(fakes, installed_hooks, setting):
    """TINYGRAFT_STRICT_PLUGINS=1 does not let a broken hook plugin pass."""
    setting(config.TINYGRAFT_STRICT_PLUGINS, 1)
    fakes.add_hooks("raise OSError('wrecked')")
    with pytest.raises(HookError, match="TINYGRAFT_STRICT_PLUGINS=1 does not allow this: the hooks of tinygraft-extra"):
        values(1, 2)


@pytest.mark.parametrize("listed", ["extra", "tinygraft-extra", "tinygraft_extra"])
def test_the_lists_hold_for_hooks(fakes, installed_hooks, setting, listed):
    """The lists of denied and allowed plugins act before import, by name of the entry or of the distribution."""
    module = fakes.add_hooks("import os; os.abort()")
    setting(config.TINYGRAFT_DISABLE_PLUGINS, listed)
    values(1, 2)
    assert [(r.status, r.detail) for r in here.records()] == [
        (Status.DISABLED, f"TINYGRAFT_DISABLE_PLUGINS={listed} switches it off")
    ]
    setting(config.TINYGRAFT_DISABLE_PLUGINS, "")
    setting(config.TINYGRAFT_PLUGINS, "")
    here.unload()
    values(1, 2)
    assert [r.status for r in here.records()] == [Status.DISABLED]
    assert module not in sys.modules


def test_devices_lists_hook_plugins(fakes, installed_hooks, monkeypatch, capsys):
    """`devices` has a line for each hook plugin with its hooks, or with what is wrong; --no-probe imports none."""
    from tinygraft.cli import devices

    monkeypatch.setattr(devices, "Device", fakes.registry())
    modules = [fakes.add_hooks(LISTENS), fakes.add_hooks("raise OSError('wrecked')", name="wreck")]
    assert main(["devices", "--no-probe"]) == 0
    assert "hooks: tinygraft-extra 1.0 extra declared\n" in capsys.readouterr().out
    assert main(["devices"]) == 1
    said = capsys.readouterr().out
    assert "hooks: tinygraft-extra 1.0 extra (on_launch)\n" in said
    assert "hooks: tinygraft-wreck 1.0 wreck broken: OSError: wrecked\n" in said
    assert main(["devices", "--json"]) == 1
    listed = json.loads(capsys.readouterr().out)
    assert [(r["kind"], r["name"], r["status"]) for r in listed] == [
        ("hooks", "extra", "loaded"), ("hooks", "wreck", "broken")
    ]  # fmt: skip
    assert not set(modules) & set(sys.modules)
