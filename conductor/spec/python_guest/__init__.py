"""Sandboxed Python: the source of a proxy, the guest that runs it, its declarations."""
