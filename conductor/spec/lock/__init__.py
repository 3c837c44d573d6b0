"""Locks: which components may run, and what each may do at most (docs/configuration.md, "Locks").

    file       what a lock file holds; reading and writing it
    entries    what there is to lock of a component
    compare    what has changed since, whether that is allowed, and a chain held to its lock

`conductor agent --locked` loads this package: it imports nothing heavy.
"""
