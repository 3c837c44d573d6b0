"""Locks: which components may run, and what each may do at most (docs/cli.md, "Locks").

    values        what a lock holds
    entries       what there is to hold of a component
    reading       from the file, strictly
    older         what files of version 1 come to
    compare       what has changed, and whether that is allowed
    enforcement   a chain held to a lock
    writing       to the file; only `conductor lock` loads that

`enforcement` is on the way of `conductor agent --locked`: it imports nothing heavy.
"""
