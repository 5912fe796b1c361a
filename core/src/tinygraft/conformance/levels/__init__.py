"""The levels of the kit, one mixin each; each can be run alone, and the first two need no hardware."""

LEVELS = ("spec", "render", "memory", "ops", "optional", "program")
