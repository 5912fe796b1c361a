"""What is a device's name, and what is said about a name that nobody provides."""

import sys
from pathlib import Path

import pytest

from tinygraft.device import known
from tinygraft.device.known import FIRST_PARTY, KNOWN, how_to_install
from tinygraft.device.registry import Device
from tinygraft.errors import DeviceError, DeviceUnavailable
from tinygraft.installed.entries import normalised
from tinygraft.installed.records import Status


@pytest.mark.parametrize(
    ("given", "canonical"),
    [("toy", "TOY"), ("Toy:0", "TOY"), (" TOY ", "TOY"), ("toy:1", "TOY:1"), ("TOY:007", "TOY:7"), ("toy:00", "TOY")],
)
def test_canonical_names(fakes, given, canonical):
    """A name is in capitals; the ordinal 0 is not written."""
    fakes.add("TOY")
    assert fakes.registry().canonicalize(given) == canonical


@pytest.mark.parametrize("name", ["", "toy:", "toy:x", "toy:-1", "toy:1:2", "a b", "toy,other", ":1", "toy:²"])
def test_what_is_not_a_name(fakes, name):
    """What cannot be a name is refused with the form of one."""
    fakes.add("TOY")
    with pytest.raises(DeviceError, match="is not the name of a device; write NAME or NAME:ordinal") as caught:
        fakes.registry().canonicalize(name)
    assert repr(name) in str(caught.value)


def test_an_unknown_name_is_one_error(fakes):
    """The error about a name has no other one before it: how names are looked up is nobody's concern."""
    for name in ("QQQQ", 3):
        with pytest.raises(DeviceError) as caught:
            fakes.registry().canonicalize(name)
        assert caught.value.__context__ is None


@pytest.mark.parametrize("entry", ["toy:1", "my toy", "../../toy", "*", "toy[1]"])
def test_an_entry_whose_name_no_device_can_have(fakes, entry):
    """It is invalid from its metadata on, which is all that is read of it; what it is called stands in the reason."""
    module = fakes.add("TOY", "#!\nraise OSError\n", entry=entry)
    (record,) = fakes.registry().records()
    assert (record.status, module in sys.modules) == (Status.INVALID, False)
    assert record.detail == f"its entry point is called {entry!r}; a device has letters, digits and _ in its name"
    assert record.hint == "tell the authors of tinygraft-toy 1.0"


@pytest.mark.parametrize("name", [3, b"TOY", [3]])
def test_a_name_is_a_string(fakes, name):
    """What is not a string is refused as such."""
    with pytest.raises(DeviceError, match="a device is named by a string NAME or NAME:ordinal, got "):
        fakes.registry().canonicalize(name)


def test_unknown_name_with_a_close_match(fakes):
    """A misspelt name is answered with the nearest one."""
    fakes.add("TOYBOX")
    with pytest.raises(DeviceUnavailable) as caught:
        fakes.registry().canonicalize("TOYBOXX")
    assert str(caught.value) == "no plugin provides a device TOYBOXX (installed: TOYBOX). Did you mean TOYBOX?"
    with pytest.raises(DeviceUnavailable, match="no plugin provides a device NOPE ") as caught:
        fakes.registry().canonicalize("NOPE")
    assert "Did you mean" not in str(caught.value)  # OPENCL is the most like it, and not like it


def test_unknown_name_like_no_other(fakes):
    """Where nothing is near, nothing is guessed: the hint says what a device is, and what writes one."""
    with pytest.raises(DeviceUnavailable) as caught:
        fakes.registry()["MY_CHIP:1"]
    assert str(caught.value) == (
        "no plugin provides a device MY_CHIP (installed: none).\n"
        "  hint: a device is a package that pip installs; python -m tinygraft new-plugin my-chip writes one"
    )


@pytest.mark.parametrize("name", KNOWN)
def test_known_but_not_installed(fakes, name):
    """A device with a distribution of ours has a name without being installed; opening it says what to install."""
    registry = fakes.registry()
    assert registry.canonicalize(name.lower() + ":1") == f"{name}:1"
    with pytest.raises(DeviceUnavailable) as caught:
        registry[name]
    assert str(caught.value).startswith(f"{name} is not installed (installed: none); pip install {KNOWN[name][0]}")


def test_hints_name_a_folder_only_where_it_is(monkeypatch, tmp_path):
    """How to install a device from a checkout is said in a checkout that has it, with the whole path."""
    assert how_to_install("CPU") == (
        f"pip install tinygraft-cpu (or, from this checkout: pip install {Path(known.CHECKOUT, 'plugins/cpu')})"
    )
    monkeypatch.setattr(known, "CHECKOUT", str(tmp_path))
    assert how_to_install("CPU") == "pip install tinygraft-cpu"


def test_ordinals_end_where_the_probe_says(fakes):
    """An ordinal past the last is refused with those that exist."""
    fakes.add("TOY", count=1)
    fakes.add("TOYS", count=3)
    fakes.add("CROWD", count=None)
    registry = fakes.registry()
    assert registry["TOYS:2"].ordinal == 2
    assert registry["CROWD:99"].name == "CROWD:99"
    with pytest.raises(DeviceUnavailable, match="^TOY:1 does not exist: there is only TOY$"):
        registry["TOY:1"]
    with pytest.raises(DeviceUnavailable, match="^TOYS:3 does not exist: there are TOYS and TOYS:1 to TOYS:2$"):
        registry["TOYS:3"]


def test_core_devices_come_through_entry_points():
    """PYTHON and NULL are found like any plugin, in the distribution tinygraft."""
    ours = {r.name: r.entry.value for r in Device.records() if r.distribution == "tinygraft"}
    assert ours == {"NULL": "tinygraft.reference.spec:NULL", "PYTHON": "tinygraft.reference.spec:PYTHON"}


def test_the_closed_table_holds_normalised_names():
    """Distribution names in the table are written as they are compared."""
    assert all(normalised(name) == name for name in FIRST_PARTY)
