"""Core's own two devices, found through the same entry points as any plugin."""
