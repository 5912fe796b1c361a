"""Every state that a plugin can be in, forced with a fake distribution, and the sentence that each one gives."""

import sys

import pytest

from tinygraft import config
from tinygraft.errors import DeviceError, DeviceUnavailable
from tinygraft.installed.records import Status


def record_of(registry, name="TOY"):
    """The only record of a device."""
    (record,) = [r for r in registry.records() if r.name == name]
    return record


def refused(registry, name="TOY"):
    """What a registry says when a device is asked for that cannot be used."""
    with pytest.raises(DeviceUnavailable) as caught:
        registry[name]
    return str(caught.value)


def test_listing_imports_nothing(fakes):
    """Records come from metadata: the plugin's module is not imported."""
    module = fakes.add("TOY")
    record = record_of(fakes.registry())
    assert (record.status, record.provided_by) == (Status.DECLARED, "tinygraft-toy 1.0")
    assert module not in sys.modules


def test_a_working_device_goes_through_all_states(fakes):
    """Probing makes a device available, asking for it opens it; each step leaves its time."""
    fakes.add("TOY")
    registry = fakes.registry()
    record = registry.probe("toy")
    assert (record.status, record.detail, record.priority) == (Status.AVAILABLE, "found", 50)
    assert registry["TOY"].name == "TOY"
    assert record.status is Status.OPEN
    assert set(record.milliseconds) == {"load", "probe", "open"}


def test_trace_prints_each_state(fakes, setting, capsys):
    """TINYGRAFT_TRACE_PLUGINS=1 prints every change of state to stderr."""
    setting(config.TINYGRAFT_TRACE_PLUGINS, 1)
    fakes.add("TOY")
    fakes.registry()["TOY"]
    states = [line.split("): ")[1].split(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert states == ["loaded", "compatible", "available", "open"]


def test_an_entry_point_may_be_a_function(fakes):
    """The entry point may name a function of no arguments that gives the spec."""
    fakes.add("TOY", "def make():\n    return SPEC\n", target="tinygraft_toy:make")
    assert fakes.registry()["TOY"].name == "TOY"


def test_broken_import(fakes):
    """A plugin that cannot be imported is broken; the sentence quotes the exception, the record keeps the traceback."""
    fakes.add("TOY", "#!\nimport no_such_library\n")
    fakes.add("OTHER")
    registry = fakes.registry()
    assert refused(registry) == (
        "TOY is installed (tinygraft-toy 1.0) but could not be loaded:\n"
        "  ModuleNotFoundError: No module named 'no_such_library'\n"
        "  fix: pip install --force-reinstall tinygraft-toy, or tell its authors of "
        f"{fakes.folder / 'tinygraft_toy.py'}, line 2\n"
        "  installed: OTHER, TOY      details: python -m tinygraft doctor -v TOY"
    )
    assert record_of(registry).status is Status.BROKEN
    assert "import no_such_library" in record_of(registry).traceback
    assert registry["OTHER"].name == "OTHER"


@pytest.mark.parametrize("target", ["no module", "tinygraft_toy:SPEC:more", "-"])
def test_an_entry_that_names_nothing(fakes, target):
    """An entry point whose value is not module:name is invalid, and what it says is quoted."""
    fakes.add("TOY", target=target)
    registry = fakes.registry()
    message = refused(registry)
    assert "TOY is installed (tinygraft-toy 1.0) but is not a proper plugin:\n" in message
    assert f"  its metadata names {target!r}, which is not module:name\n" in message
    assert record_of(registry).status is Status.INVALID


def test_a_plugin_that_exits(fakes):
    """SystemExit at import is a broken plugin, not the end of the process."""
    fakes.add("TOY", "#!\nraise SystemExit(3)\n")
    registry = fakes.registry()
    assert "SystemExit: 3" in refused(registry)
    assert record_of(registry).status is Status.BROKEN


def test_keyboard_interrupt_passes(fakes):
    """Ctrl-C while a plugin is imported reaches the user, and the plugin can be asked for again."""
    fakes.add("TOY", "#!\nraise KeyboardInterrupt\n")
    registry = fakes.registry()
    with pytest.raises(KeyboardInterrupt):
        registry["TOY"]
    assert record_of(registry).status is Status.DECLARED


def test_stale_metadata(fakes):
    """Metadata of a plugin whose files are gone says so."""
    fakes.add("TOY", target="tinygraft_gone.spec:SPEC")
    message = refused(fakes.registry())
    assert "its metadata names the module tinygraft_gone.spec, which does not exist" in message
    assert "fix: reinstall it, or pip uninstall tinygraft-toy" in message


@pytest.mark.parametrize(
    "line",
    [
        "from tinygraft.plugin import Teleporter",
        "import tinygraft.hyperspace",
        "from tinygraft import Warp",
        "import tinygraft.plugin as t; t.Teleporter",
        "import tinygraft; tinygraft.Warp",
    ],
)
def test_skew_looks_like_an_import_error(fakes, line):
    """A plugin that imports what this core does not have is incompatible, not broken."""
    fakes.add("TOY", f"#!\n{line}\n")
    registry = fakes.registry()
    message = refused(registry)
    assert "does not fit this version of tinygraft" in message
    assert "it wants something that this tinygraft does not have: " in message
    assert "fix: pip install -U tinygraft tinygraft-toy" in message
    assert record_of(registry).status is Status.INCOMPATIBLE


def test_a_spec_with_fields_of_the_future(fakes):
    """A spec with a field that this core does not know is incompatible."""
    fakes.add("TOY", "from dataclasses import replace\nSPEC = DeviceSpec(colour='blue')\n")
    registry = fakes.registry()
    assert "unexpected keyword argument 'colour'" in refused(registry)
    assert record_of(registry).status is Status.INCOMPATIBLE


@pytest.mark.parametrize(("low", "below", "update"), [((0, 2), (0, 3), "tinygraft"), ((0, 0), (0, 1), "tinygraft-toy")])
def test_another_plugin_api(fakes, low, below, update):
    """A plugin for an older or newer API names both sides and what to update."""
    fakes.add("TOY", f"from dataclasses import replace\nSPEC = replace(SPEC, api=ApiRange({low}, {below}))\n")
    low, below = (".".join(map(str, v)) for v in (low, below))
    message = refused(fakes.registry())
    assert f"it works with plugin API >={low},<{below}, and this tinygraft provides 0.1" in message
    assert f"fix: pip install -U {update}\n" in message


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("SPEC = 3", "its entry point gives a int, not a DeviceSpec"),
        ("SPEC = lambda: 'x'", "its entry point gives a str, not a DeviceSpec"),
        ("SPEC = replace(SPEC, name='TOYS')", "its entry point is called toy, its spec is for 'TOYS'"),
        ("SPEC = replace(SPEC, api=(0, 1))", "its api is (0, 1), not an ApiRange"),
        (
            "SPEC = replace(SPEC, api=ApiRange('0.1', '0.2'))",
            "its api has '0.1' where two numbers should be, such as (0, 1)",
        ),
        ("SPEC = replace(SPEC, api=ApiRange((0, 1), (0,)))", "its api has (0,) where two numbers should be"),
        (
            "SPEC = replace(SPEC, settings=None)",
            "its spec cannot be read: TypeError: 'NoneType' object is not iterable",
        ),
        (
            "def probe():\n    return Probe(ok=True, detail=None)",
            "its probe tinygraft_toy:probe gave words that are no text",
        ),
        ("def probe():\n    return Probe(ok=True, detail='', count='2')", "gave '2' as the number of devices"),
        ("def probe():\n    return Probe(ok=True, detail='', count=0)", "gave 0 as the number of devices"),
        ("class Backend(NullBackend):\n    def __init__(self, *_):\n        pass", "its backend has no target"),
        (
            "class Backend(NullBackend):\n    def __init__(self, *names):\n        super().__init__(*names)\n"
            "        self.allocator = 3",
            "its backend has a int as allocator",
        ),
        ("SPEC = replace(SPEC, priority='high')", "its priority is 'high', not an integer"),
        ("SPEC = replace(SPEC, probe='x')", "its probe is 'x', not \"module:name\""),
        ("SPEC = replace(SPEC, backend=3)", 'its backend is 3, not "module:name"'),
        ("def probe():\n    return True", "its probe tinygraft_toy:probe gave a bool, not a Probe"),
        ("Backend = 3", "its backend tinygraft_toy:Backend is no Backend class"),
    ],
)
def test_not_a_proper_plugin(fakes, code, fault):
    """What is not as the contract says is invalid, and the sentence names the fault."""
    fakes.add("TOY", f"from dataclasses import replace\n{code}\n")
    registry = fakes.registry()
    message = refused(registry)
    assert "is installed (tinygraft-toy 1.0) but is not a proper plugin" in message
    assert fault in message
    assert "fix: tell the authors of tinygraft-toy 1.0" in message
    assert record_of(registry).status is Status.INVALID


def test_a_probe_that_raises(fakes):
    """An exception of a probe is kept as the reason."""
    fakes.add("TOY", "def probe():\n    raise OSError('libtoy.so.1 is missing')\n")
    registry = fakes.registry()
    place = f"{fakes.folder / 'tinygraft_toy.py'}, line 16"
    said = f"its probe failed: OSError: libtoy.so.1 is missing\n  fix: tell the authors of tinygraft-toy 1.0: {place}\n"
    assert said in refused(registry)
    assert record_of(registry).status is Status.BROKEN


def test_no_device_here(fakes):
    """A probe that finds nothing gives its own words and hint."""
    fakes.add("TOY", "def probe():\n    return Probe(ok=False, detail='no toy on this table', hint='put one there')\n")
    registry = fakes.registry()
    assert refused(registry).startswith(
        "TOY is installed (tinygraft-toy 1.0) but there is none here:\n  no toy on this table\n  fix: put one there\n"
    )
    assert record_of(registry).status is Status.UNAVAILABLE


def test_a_backend_module_that_cannot_be_imported(fakes):
    """A backend whose module needs a library that is missing is broken, with the line that imports it."""
    fakes.add("TOY", "from dataclasses import replace\nSPEC = replace(SPEC, backend='toy_backend:Backend')\n")
    (fakes.folder / "toy_backend.py").write_text("import no_such_driver\n")
    registry = fakes.registry()
    message = refused(registry)
    assert (
        "could not be loaded:\n  ModuleNotFoundError: No module named 'no_such_driver'\n"
        "  fix: pip install --force-reinstall tinygraft-toy, or tell its authors of "
        f"{fakes.folder / 'toy_backend.py'}, line 1\n" in message
    )
    assert record_of(registry).status is Status.BROKEN


def test_a_device_that_fails_to_open(fakes):
    """An exception while opening is quoted and chained, and the next request tries again."""
    fakes.add(
        "TOY",
        """
        tries = []
        class Backend(NullBackend):
            def __init__(self, name, ordinal):
                super().__init__(name, ordinal)
                tries.append(name)
                if len(tries) == 1:
                    raise OSError("the toy is in use")
        """,
    )
    registry = fakes.registry()
    with pytest.raises(DeviceUnavailable, match="could not be opened:\n  OSError: the toy is in use") as caught:
        registry["TOY"]
    assert isinstance(caught.value.__cause__, OSError)
    assert record_of(registry).status is Status.FAILED
    assert registry["TOY"].name == "TOY"


@pytest.mark.parametrize("is_open", [True, False])
def test_an_ordinal_that_fails_to_open(fakes, is_open):
    """One that is not there, which only its plugin knows, says nothing of the others: the choice takes the device."""
    fakes.add(
        "TOY",
        """
from tinygraft.plugin import UNCOUNTED, DeviceUnavailable
class Backend(NullBackend):
    def __init__(self, name, ordinal):
        if ordinal:
            raise DeviceUnavailable(f"there is no card {ordinal}; these are all: 0")
        super().__init__(name, ordinal)
def probe():
    return Probe(ok=True, detail="found", count=UNCOUNTED)
""",
    )
    registry = fakes.registry()
    if is_open:
        registry["TOY"]
    said = refused(registry, "TOY:7")
    assert said.startswith("TOY:7 is installed (tinygraft-toy 1.0) but could not be opened:\n  there is no card 7; ")
    assert (record_of(registry).status, record_of(registry).detail) == (
        (Status.OPEN, "found") if is_open else (Status.AVAILABLE, "found")
    )
    assert registry.DEFAULT == "TOY"


def test_a_backend_that_says_itself_what_to_do(fakes):
    """The words of a DeviceError stand alone: no type before them, and no hint of how to install what is there."""
    opening = "def __init__(self, *_):\n        raise DeviceUnavailable('no toy is called bear; there are: doll')\n"
    fakes.add("TOY", f"from tinygraft.plugin import DeviceUnavailable\nclass Backend(NullBackend):\n    {opening}")
    assert refused(fakes.registry()) == (
        "TOY is installed (tinygraft-toy 1.0) but could not be opened:\n  no toy is called bear; there are: doll\n"
        "  installed: TOY      details: python -m tinygraft doctor TOY"
    )


def test_a_setting_error_while_opening_is_the_users(fakes):
    """A wrong value of a plugin's setting is raised as it is."""
    code = (
        "from tinygraft.plugin import SettingError\ndef Backend_(*_):\n    raise SettingError('TOY_SIZE must be big')\n"
    )
    fakes.add("TOY", code + "class Backend(NullBackend):\n    __init__ = Backend_\n")
    registry = fakes.registry()
    with pytest.raises(config.SettingError, match="TOY_SIZE must be big"):
        registry["TOY"]
    assert record_of(registry).hint == "change that setting, or unset it"


def test_a_plugin_that_asks_for_itself(fakes):
    """A backend that requests its own device while it is being opened raises DeviceError."""
    opening = "def __init__(self, name, ordinal):\n        registries[0][name]\n"
    code = f"registries = []\nclass Backend(NullBackend):\n    {opening}"
    module = fakes.add("TOY", code)
    registry = fakes.registry()
    registry.probe("TOY")
    sys.modules[module].registries.append(registry)
    assert "TOY was requested while it is being opened" in refused(registry)


@pytest.mark.parametrize("listed", ["toy", "TOY", "tinygraft-toy", "tinygraft_toy", "other,Toy"])
def test_deny_list(fakes, setting, listed):
    """TINYGRAFT_DISABLE_PLUGINS acts before any import, by device or distribution name in any spelling."""
    setting(config.TINYGRAFT_DISABLE_PLUGINS, listed)
    module = fakes.add("TOY", "#!\nimport os; os.abort()\n")
    message = refused(fakes.registry())
    assert f"switched off:\n  TINYGRAFT_DISABLE_PLUGINS={listed} switches it off\n  fix: unset" in message
    assert module not in sys.modules


@pytest.mark.parametrize(
    ("listed", "usable"), [("toy", True), ("tinygraft-toy,x", True), ("*", True), ("x", False), ("", False)]
)
def test_allow_list(fakes, setting, listed, usable):
    """TINYGRAFT_PLUGINS lets only those load that it names; empty is none."""
    setting(config.TINYGRAFT_PLUGINS, listed)
    fakes.add("TOY")
    registry = fakes.registry()
    if usable:
        assert registry["TOY"].name == "TOY"
    else:
        assert f"TINYGRAFT_PLUGINS={listed} does not name it\n  fix: add toy to TINYGRAFT_PLUGINS" in refused(registry)
        assert record_of(registry).status is Status.DISABLED


def test_core_is_always_allowed(fakes, setting):
    """The allow list is about plugins: core's own devices stay."""
    setting(config.TINYGRAFT_PLUGINS, "")
    fakes.add("TOY", distribution="tinygraft", module="toy_of_core", target="toy_of_core:SPEC")
    assert fakes.registry()["TOY"].name == "TOY"


def test_two_providers_are_ambiguous(fakes):
    """Two distributions that provide one name are an error for that name only, and neither is imported."""
    modules = [fakes.add("TOY", distribution=d) for d in ("acme-toy", "best-toy")]
    fakes.add("OTHER")
    registry = fakes.registry()
    message = refused(registry)
    assert "TOY is ambiguous:\n  it is provided by acme-toy 1.0 and best-toy 1.0\n" in message
    assert "set TINYGRAFT_PROVIDER=TOY=" in message
    assert not set(modules) & set(sys.modules)
    assert registry["OTHER"].name == "OTHER"


def test_provider_decides(fakes, setting):
    """TINYGRAFT_PROVIDER names the distribution to take; the other one is shadowed."""
    setting(config.TINYGRAFT_PROVIDER, "toy=best_toy")
    for distribution in ("acme-toy", "best-toy"):
        fakes.add("TOY", distribution=distribution)
    registry = fakes.registry()
    assert registry["TOY"].name == "TOY"
    by_distribution = {r.distribution: r for r in registry.records()}
    assert by_distribution["best-toy"].shadowed == ("acme-toy 1.0",)
    assert by_distribution["acme-toy"].status is Status.DISABLED


def test_provider_that_cannot_be_read(fakes, setting):
    """A TINYGRAFT_PROVIDER without an equals sign is a SettingError."""
    setting(config.TINYGRAFT_PROVIDER, "best-toy")
    for distribution in ("acme-toy", "best-toy"):
        fakes.add("TOY", distribution=distribution)
    with pytest.raises(config.SettingError, match="TINYGRAFT_PROVIDER must be NAME=distribution, got 'best-toy'"):
        fakes.registry().names()


def test_one_distribution_seen_twice(fakes):
    """Stale metadata of the same distribution is no second provider; the record says what it shadows."""
    fakes.add("TOY", version="1.0", module="toy_one")
    fakes.add("TOY", version="0.9", module="toy_two")
    record = record_of(fakes.registry())
    assert len(record.shadowed) == 1
    assert fakes.registry()["TOY"].name == "TOY"


def test_unreadable_metadata_of_others(fakes):
    """A distribution whose metadata cannot be read does not hide the others."""
    fakes.add("TOY")
    info = fakes.folder / "wreck-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[tinygraft.devices]\nno equals sign here\n")
    assert fakes.registry().names() == ["TOY"]


def test_metadata_without_a_name(fakes):
    """A distribution whose metadata has no name still provides its device."""
    fakes.add("TOY")
    (metadata,) = fakes.folder.glob("*.dist-info/METADATA")
    metadata.unlink()
    registry = fakes.registry()
    assert registry["TOY"].name == "TOY"
    assert record_of(registry).provided_by in ("unknown", "tinygraft-toy 1.0")


def test_refresh_sees_what_was_installed_since(fakes):
    """What is installed is read once; refresh reads it again."""
    registry = fakes.registry()
    assert registry.names() == []
    fakes.add("TOY")
    assert registry.names() == []
    registry.refresh()
    assert registry["TOY"].name == "TOY"


def test_strict_is_about_the_automatic_choice(fakes, setting):
    """Under TINYGRAFT_STRICT_PLUGINS a broken plugin is an error for the automatic choice."""
    setting(config.TINYGRAFT_STRICT_PLUGINS, 1)
    fakes.add("TOY", "#!\nimport no_such_library\n")
    fakes.add("OTHER")
    with pytest.raises(
        DeviceError, match="TINYGRAFT_STRICT_PLUGINS=1 does not allow this: using OTHER; passed over: TOY"
    ):
        fakes.registry().DEFAULT  # noqa: B018
