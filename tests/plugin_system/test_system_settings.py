"""Settings: values that cannot be are refused in a sentence, and those of plugins are found without asking others."""

import os
import subprocess
import sys

import pytest

from tinygraft import config
from tinygraft.cli import settings
from tinygraft.cli.main import main
from tinygraft.config import DEBUG, KEEP_MB, SETTINGS, Context
from tinygraft.device.plugin_records import PluginRecord
from tinygraft.errors import DeviceUnavailable, SettingError
from tinygraft.installed.records import Status

SIZE = (
    "from dataclasses import replace\nfrom tinygraft.plugin import Setting\n"
    "SIZE = Setting('TOY_SIZE', 3, 'how large it is', 1)\n"
    "SPEC = replace(SPEC, settings={'TOY_SIZE': SIZE.doc})\n"
)


@pytest.fixture
def toy(fakes, monkeypatch):
    """A plugin with a setting, which is the one that Context and the command see; what it leaves is removed."""
    module = fakes.add("TOY", SIZE)
    other = fakes.add("OTHER", "#!\nimport os; os.abort()\n")
    registry = fakes.registry()
    monkeypatch.setattr(config, "finders", [registry.find_setting])
    monkeypatch.setattr(settings, "Device", registry)
    yield registry, module, other
    SETTINGS.pop("TOY_SIZE", None)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("KEEP_MB", "-5", "KEEP_MB must be 0 or more, got -5: freed memory that is kept for reuse"),
        ("BEAM", "-1", "BEAM must be 0 or more, got -1: above 0 times many versions"),
        ("DEBUG", "99", "DEBUG must be from 0 to 7, got 99: how much to print"),
        ("DEBUG", "much", "DEBUG must be an integer, got 'much'"),
        ("SPEC", "3", "SPEC must be from 0 to 2, got 3"),
        ("CACHELEVEL", "-1", "CACHELEVEL must be 0 or more, got -1"),
        ("BEAM_BUDGET", "-1", "BEAM_BUDGET must be 0 or more, got -1"),
        ("NOOPT", "2", "NOOPT must be from 0 to 1, got 2"),
    ],
)
def test_a_value_that_cannot_be(name, value, sentence):
    """A number outside its bounds is refused with the bounds and the meaning."""
    with pytest.raises(SettingError) as caught, Context(**{name: value}):
        pass
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("command", ["devices --no-probe", "settings", "doctor NULL"])
def test_a_bad_value_in_the_environment_is_one_line(command):
    """A command says what is wrong with the environment, without a traceback, and ends with 2."""
    done = subprocess.run(
        [sys.executable, "-m", "tinygraft", *command.split()],
        env=os.environ | {"DEBUG": "99"}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("SettingError: DEBUG must be from 0 to 7, got 99: how much to print")
    assert done.stderr.count("\n") == 1


def test_a_refused_context_changes_nothing():
    """Where one of several values cannot be, none holds."""
    before = DEBUG.value
    with pytest.raises(SettingError, match="KEEP_MB must be 0 or more"), Context(DEBUG=before + 1, KEEP_MB=-1):
        pass
    assert (DEBUG.value, DEBUG.in_context, KEEP_MB.in_context) == (before, None, None)


def test_context_knows_the_setting_of_a_plugin(toy):
    """A name that begins with a device's imports the spec of that device, its backend and no other plugin."""
    _, module, other = toy
    with Context(TOY_SIZE=7):
        assert SETTINGS["TOY_SIZE"].value == 7
    assert module in sys.modules
    assert other not in sys.modules
    with pytest.raises(SettingError, match="TOY_SIZE must be 1 or more, got 0: how large it is"), Context(TOY_SIZE=0):
        pass


def test_a_setting_of_nobody(toy):
    """A name that no device begins imports nothing and is refused with what there is."""
    _, module, other = toy
    with pytest.raises(SettingError, match="there is no setting TOYSIZE; the settings are .*, BEAM, "):
        Context(TOYSIZE=1)
    assert not {module, other} & set(sys.modules)


def test_a_setting_that_a_plugin_lacks(toy):
    """A name of a device's form that its plugin does not have is no setting either."""
    with pytest.raises(SettingError, match="there is no setting TOY_WEIGHT; the settings are .*TOY_SIZE"):
        Context(TOY_WEIGHT=1)


def test_the_public_context_finds_settings():
    """tinygraft.Context knows the settings of installed plugins before any device was asked for."""
    code = "from tinygraft import Context\nwith Context(CPU_THREADS=1): print('fine')\n"
    code += "import sys\nprint('llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["fine", "False"]


@pytest.mark.skipif(os.name != "posix", reason="no signals here")
def test_the_command_lists_those_of_plugins(toy, capsys, monkeypatch):
    """`settings` has a plugin's settings with their values, read in a child process; a broken one is a sentence."""
    _, module, other = toy
    monkeypatch.setenv("TOY_SIZE", "5")
    assert main(["settings"]) == 0
    text = capsys.readouterr().out
    assert "\nof TOY (tinygraft-toy 1.0)\nTOY_SIZE  5           how large it is\n" in text
    assert "OTHER is installed (tinygraft-other 1.0) but could not be loaded: loading it in a child process" in text
    assert not {module, other} & set(sys.modules)


def test_a_bad_value_of_a_plugins_setting(toy, monkeypatch):
    """A value that a plugin's setting cannot have is the user's mistake: the error names the setting and no package."""
    registry, _, _ = toy
    monkeypatch.setenv("TOY_SIZE", "huge")
    with pytest.raises(DeviceUnavailable) as caught:
        registry["TOY"]
    assert "\n  TOY_SIZE must be an integer, got 'huge'\n  fix: change that setting, or unset it\n" in str(caught.value)


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("SPEC = replace(SPEC, settings={'SIZE': 'x'})", "its setting SIZE does not begin with TOY_"),
        ("SPEC = replace(SPEC, settings={'TOY_AGE': 'x'})", "its setting TOY_AGE is not made with tinygraft.plu"),
    ],
)  # fmt: skip
def test_settings_that_nobody_could_find(fakes, code, fault):
    """A plugin whose settings core could not find is not a proper one."""
    fakes.add("TOY", f"from dataclasses import replace\n{code}\n")
    registry = fakes.registry()
    with pytest.raises(DeviceUnavailable, match=fault):
        registry["TOY"]
    (record,) = registry.records()
    assert isinstance(record, PluginRecord)
    assert record.status is Status.INVALID


@pytest.mark.parametrize("name", ["DEV", "TINYGRAFT_DEVICE"])
def test_an_error_about_a_device_says_which_setting_asked(fakes, setting, name):
    """Each error about a device that a setting names begins with the setting as it was written."""
    fakes.add("GONE", "def probe():\n    return Probe(ok=False, detail='no card')\n")
    for asked, sentence in [
        ("FOO", f"{name}=FOO: no plugin provides a device FOO (installed: GONE).\n  hint: "),
        ("metal", f"{name}=metal: METAL is not installed (installed: GONE); pip install tinygraft-metal"),
        ("gone", f"{name}=gone: GONE is installed (tinygraft-gone 1.0) but there is none here:\n  no card"),
        ("a b", f"{name}=a b: 'a b' is not the name of a device"),
        (" , ", f"{name}= , : names no device; write NAME, NAME:ordinal or a chain A,B".replace(": names", " names")),
    ]:
        setting(SETTINGS[name], asked)
        registry = fakes.registry()
        with pytest.raises(RuntimeError) as caught:
            registry[registry.DEFAULT]
        assert str(caught.value).startswith(sentence)


def test_an_error_about_another_device_does_not(fakes, setting):
    """A device that was named beside the setting is not the setting's."""
    setting(config.DEV, "TOY")
    fakes.add("TOY")
    fakes.add("GONE", "def probe():\n    return Probe(ok=False, detail='no card')\n")
    registry = fakes.registry()
    assert registry.DEFAULT == "TOY"
    with pytest.raises(DeviceUnavailable, match="^GONE is installed"):
        registry["GONE"]


def test_a_provider_that_is_none_of_them(fakes, setting):
    """TINYGRAFT_PROVIDER that names neither distribution is part of the reason."""
    setting(config.TINYGRAFT_PROVIDER, "TOY=worst-toy")
    for distribution in ("acme-toy", "best-toy"):
        fakes.add("TOY", distribution=distribution)
    with pytest.raises(DeviceUnavailable) as caught:
        fakes.registry()["TOY"]
    assert (
        "it is provided by acme-toy 1.0 and best-toy 1.0, and TINYGRAFT_PROVIDER=TOY=worst-toy names neither\n"
    ) in str(caught.value)
