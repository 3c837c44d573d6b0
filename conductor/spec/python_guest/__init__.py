"""Sandboxed Python: the source of a proxy, the guest that runs it, what it declares."""
