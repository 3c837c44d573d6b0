"""Runs a chain: the plan, the processes, the event loop, the host of sandboxed guests, the end."""
