"""What plugins share whose devices are driven by a driver of streams, events, modules and graphs.

Such drivers have the same functions by other names (DriverFacts), so a plugin is that table, what differs, and its
language. Core imports none of this: plugins do, through `tinygraft.plugin.driver`.
"""
