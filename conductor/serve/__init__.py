"""Chains for clients at addresses: `conductor serve`, and `conductor agent --listen ADDRESS`.

The package is loaded where a chain listens, and nowhere else.
"""
