"""Locks: which components may run, and what each may do at most (docs/configuration.md, "Locks").

    file       the content of a lock file; reading and writing it
    entries    the entries of a component
    compare    changes since, whether they are allowed, and a chain held to its lock

`conductor agent --locked` loads this package: it imports nothing heavy.
"""
