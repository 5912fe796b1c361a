"""Which card an ordinal is: those that HIP_VISIBLE_DEVICES and AMD_DEVICE allow, in the order of HIP.

HIP_VISIBLE_DEVICES is HIP's own variable, and holds for all libraries of a process. AMD_DEVICE is this plugin's:
numbers, the beginnings of UUIDs, or parts of names.
"""

from __future__ import annotations

from tinygraft.plugin.driver import CardChoice
from tinygraft_amd.driver import start
from tinygraft_amd.probe import VISIBLE
from tinygraft_amd.spec import AMD_DEVICE

CARDS = CardChoice("AMD", "HIP", AMD_DEVICE, VISIBLE, start)
