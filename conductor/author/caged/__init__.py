"""A guest looked at by itself, in a process that is locked up before any of its code runs.

`conductor agent` hosts guests in a child with a router of its own (`conductor.run.segment`).
Whoever tries one out wants to see what it says itself, so here the child holds nothing but its instances:
`guests` is this side, `process` the other.

What is merely read of a stranger's module or source is read in such a child as well: `judge` is
this side of that, `judging` the other.
"""
