"""Which device is used when none is named, and what an explicit request never does."""

import sys
import warnings

import pytest

from tinygraft import config
from tinygraft.config import Context
from tinygraft.device.known import how_to_install
from tinygraft.errors import DeviceError, DeviceFallbackWarning, DeviceUnavailable, SettingError

FAILS_TO_OPEN = "class Backend(NullBackend):\n    def __init__(self, name, ordinal):\n        raise OSError('in use')\n"
ABSENT = "def probe():\n    return Probe(ok=False, detail='no {0} here')\n"


@pytest.fixture(autouse=True)
def _no_surprises(monkeypatch):
    """A warning that a test does not expect is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeviceFallbackWarning)
        yield


def test_highest_priority_wins(fakes):
    """The automatic choice takes the highest priority; a tie goes to the first name."""
    fakes.add("SLOW", priority=10)
    fakes.add("FAST", priority=100)
    fakes.add("ALSO_FAST", distribution="tinygraft-also", priority=100)
    assert fakes.registry().DEFAULT == "ALSO_FAST"


def test_priority_zero_is_never_automatic(fakes):
    """With nothing but devices of priority 0 there is no default; the error says what to install or to set."""
    fakes.add("SHY", priority=0)
    with pytest.raises(DeviceUnavailable) as caught:
        fakes.registry().DEFAULT  # noqa: B018
    assert str(caught.value) == (
        "no device to run on: nothing that works here is chosen by itself\n"
        "  fix: set DEV=SHY, which works here and has priority 0\n"
        f"  or {how_to_install('CPU')}\n"
        "  or set DEV=PYTHON to use the interpreter: right, and slow"
    )


def test_nothing_is_installed(fakes):
    """Without any plugin the error says what to install."""
    with pytest.raises(DeviceUnavailable) as caught:
        fakes.registry().DEFAULT  # noqa: B018
    assert str(caught.value) == (
        "no device to run on: nothing but core's own interpreter is installed, which is never chosen by itself\n"
        f"  fix: {how_to_install('CPU')}\n"
        "  or set DEV=PYTHON to use the interpreter: right, and slow"
    )


def test_what_works_unasked_is_named_beside_what_is_broken(fakes):
    """Where one is broken and another has priority 0, the one that works is the first thing to try."""
    fakes.add("SHY", priority=0)
    fakes.add("WRECK", "#!\nraise OSError('wrecked')\n")
    with pytest.raises(DeviceUnavailable) as caught:
        fakes.registry().DEFAULT  # noqa: B018
    assert str(caught.value).splitlines()[:3] == [
        "no device to run on: none of those that are chosen by themselves can be used",
        "  WRECK is installed (tinygraft-wreck 1.0) but could not be loaded: OSError: wrecked",
        "  fix: set DEV=SHY, which works here and has priority 0",
    ]


def test_nothing_works_here(fakes):
    """When all that is installed is absent or broken, the error quotes each reason."""
    fakes.add("TOY", ABSENT.format("toy"))
    fakes.add("WRECK", "#!\nraise OSError('wrecked')\n")
    with pytest.raises(DeviceUnavailable) as caught:
        fakes.registry().DEFAULT  # noqa: B018
    message = str(caught.value)
    assert message.startswith("no device to run on: none of those installed can be used\n")
    assert "  TOY is installed (tinygraft-toy 1.0) but there is none here: no toy here\n" in message
    assert "  WRECK is installed (tinygraft-wreck 1.0) but could not be loaded: OSError: wrecked\n" in message


def test_the_choice_imports_only_the_winner(fakes):
    """Specs of third parties are seen in a child process; only the chosen one is imported here."""
    slow, fast = fakes.add("SLOW", priority=10), fakes.add("FAST", priority=100)
    registry = fakes.registry()
    assert registry.DEFAULT == "FAST"
    assert (fast in sys.modules, slow in sys.modules) == (True, False)


def test_an_absent_device_is_passed_over_silently(fakes):
    """A device that is merely not here is no reason for a warning."""
    fakes.add("GONE", ABSENT.format("card"), priority=100)
    fakes.add("TOY")
    assert fakes.registry().DEFAULT == "TOY"


def test_fallback_warns_once(fakes):
    """A winner that fails to open is passed over with one warning that says how to silence it."""
    fakes.add("FAST", FAILS_TO_OPEN, priority=100)
    fakes.add("TOY")
    registry = fakes.registry()
    with pytest.warns(DeviceFallbackWarning) as said:
        assert registry.DEFAULT == "TOY"
    assert [str(w.message) for w in said] == [
        "using TOY; passed over: FAST is installed (tinygraft-fast 1.0) but could not be opened: OSError: in use. "
        "To silence this, set DEV=TOY or TINYGRAFT_DISABLE_PLUGINS=FAST; "
        "details: python -m tinygraft doctor"
    ]
    assert said[0].filename == __file__  # where the user's program made the choice necessary
    assert registry.DEFAULT == "TOY"  # without another warning


def test_two_providers_are_passed_over_once(fakes):
    """A name that two distributions claim is one reason of the warning, not two."""
    for distribution in ("acme-two", "best-two"):
        fakes.add("TWO", distribution=distribution)
    fakes.add("TOY")
    with pytest.warns(DeviceFallbackWarning) as said:
        assert fakes.registry().DEFAULT == "TOY"
    assert str(said[0].message) == (
        "using TOY; passed over: TWO is ambiguous: it is provided by acme-two 1.0 and best-two 1.0. To silence this, "
        "set DEV=TOY or TINYGRAFT_DISABLE_PLUGINS=TWO; details: python -m tinygraft doctor"
    )


def test_strict_forbids_the_fallback(fakes, setting):
    """TINYGRAFT_STRICT_PLUGINS=1 makes the fallback an error."""
    setting(config.TINYGRAFT_STRICT_PLUGINS, 1)
    fakes.add("FAST", FAILS_TO_OPEN, priority=100)
    fakes.add("TOY")
    with pytest.raises(DeviceError, match="does not allow this: using TOY; passed over: FAST is installed"):
        fakes.registry().DEFAULT  # noqa: B018


def test_an_explicit_request_never_falls_back(fakes, setting):
    """A device that was asked for and fails is an error, whoever asked."""
    fakes.add("FAST", FAILS_TO_OPEN, priority=100)
    fakes.add("TOY")
    registry = fakes.registry()
    for ask in (lambda: registry["FAST"], lambda: registry[registry.DEFAULT]):
        setting(config.DEV, "FAST")
        with pytest.raises(DeviceUnavailable, match="FAST is installed .* but could not be opened"):
            ask()


def test_an_explicit_request_imports_only_that_plugin(fakes):
    """Asking for a device by name neither imports another plugin nor starts a child process."""
    fakes.add("TOY")
    wreck = fakes.add("WRECK", "#!\nimport os; os.abort()\n")
    registry = fakes.registry()
    assert registry["TOY"].name == "TOY"
    assert wreck not in sys.modules
    assert all("trial" not in r.milliseconds for r in registry.records())


def test_order_of_choice(fakes, setting, monkeypatch):
    """Context, then TINYGRAFT_DEVICE, then DEV, then NAME=1, then priority."""
    for name in ("ONE", "TWO", "THREE", "FOUR"):
        fakes.add(name)
    fakes.add("FIVE", priority=100)

    def chosen():
        return fakes.registry().DEFAULT

    assert chosen() == "FIVE"
    monkeypatch.setenv("FOUR", "1")
    assert chosen() == "FOUR"
    setting(config.DEV, "three")
    assert chosen() == "THREE"
    setting(config.TINYGRAFT_DEVICE, "two")
    assert chosen() == "TWO"
    with Context(DEV="one:0"):
        assert chosen() == "ONE"
    assert chosen() == "TWO"


@pytest.mark.parametrize("value", ["0", "", "2", "true", "01"])
def test_name_setting_counts_only_when_it_is_one(fakes, monkeypatch, value):
    """NAME=1 chooses a device for the value 1 only: other programs may use the name for something else."""
    fakes.add("TOY", priority=10)
    fakes.add("FAST", priority=100)
    monkeypatch.setenv("TOY", value)
    assert fakes.registry().DEFAULT == "FAST"


def test_name_setting_of_no_device_is_ignored(fakes, monkeypatch):
    """NAME=1 for a name that no plugin declares means nothing, even for a name of the closed table."""
    fakes.add("TOY")
    monkeypatch.setenv("METAL", "1")
    assert fakes.registry().DEFAULT == "TOY"


def test_a_setting_of_ours_chooses_no_device(fakes, monkeypatch):
    """DEBUG=1 means what it always does, also where a plugin calls its device so; DEV=DEBUG is that device."""
    fakes.add("DEBUG", priority=10)
    fakes.add("FAST", priority=100)
    monkeypatch.setenv("DEBUG", "1")
    assert fakes.registry().DEFAULT == "FAST"
    with Context(DEV="DEBUG"):
        assert fakes.registry().DEFAULT == "DEBUG"


def test_two_name_settings(fakes, monkeypatch):
    """Two devices chosen at once is a mistake that is said."""
    for name in ("TOY", "DOLL"):
        fakes.add(name)
        monkeypatch.setenv(name, "1")
    with pytest.raises(
        SettingError, match="DOLL=1 and TOY=1 are both set; set one of them, or DEV=DOLL,TOY for an order"
    ):
        fakes.registry().DEFAULT  # noqa: B018


def test_a_chain_takes_the_first_that_opens(fakes):
    """DEV=A,B is an order of preference among named devices."""
    fakes.add("FAST", FAILS_TO_OPEN)
    fakes.add("GONE", ABSENT.format("card"))
    fakes.add("TOY")
    with Context(DEV="fast,gone,metal,toy"):
        assert fakes.registry().DEFAULT == "TOY"


def test_a_chain_of_which_none_opens(fakes):
    """The error of a chain quotes each reason."""
    fakes.add("FAST", FAILS_TO_OPEN)
    fakes.add("GONE", ABSENT.format("card"))
    with Context(DEV="FAST,GONE"), pytest.raises(DeviceUnavailable) as caught:
        fakes.registry().DEFAULT  # noqa: B018
    assert str(caught.value).startswith("DEV=FAST,GONE: none of them can be used:\nFAST is installed")
    assert "OSError: in use" in str(caught.value)
    assert "no card here" in str(caught.value)


def test_an_unknown_name_in_a_setting(fakes):
    """A setting that names what nobody knows is an error, also in a chain."""
    fakes.add("TOY")
    for asked in ("TOYY", "TOYY,TOY"):
        with Context(DEV=asked), pytest.raises(DeviceUnavailable, match="no plugin provides a device TOYY .* mean TOY"):
            fakes.registry().DEFAULT  # noqa: B018


def test_naming_a_device_in_a_setting_does_not_open_it(fakes):
    """DEV=NAME gives the name; graphs on a device can be made where it does not open."""
    fakes.add("FAST", FAILS_TO_OPEN)
    registry = fakes.registry()
    with Context(DEV="FAST"):
        assert registry.DEFAULT == "FAST"
    assert registry.opened() == []


def test_the_default_can_be_set(fakes, setting):
    """Device.DEFAULT = name chooses for the process; a Context still wins; an unknown name is refused."""
    setting(config.DEV, "FAST")
    fakes.add("FAST", priority=100)
    fakes.add("TOY")
    registry = fakes.registry()
    assert registry.DEFAULT == "FAST"
    registry.DEFAULT = "toy:0"
    assert registry.DEFAULT == "TOY"
    with Context(DEV="FAST"):
        assert registry.DEFAULT == "FAST"
    with pytest.raises(DeviceUnavailable, match="no plugin provides a device TOYY"):
        registry.DEFAULT = "TOYY"
    assert registry.DEFAULT == "TOY"


def test_no_name_is_the_default(fakes):
    """Asking for None is asking for the default device."""
    fakes.add("TOY")
    registry = fakes.registry()
    assert (registry.canonicalize(None), registry[None].name) == ("TOY", "TOY")
