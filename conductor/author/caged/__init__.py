"""A guest looked at by itself, in a process that is locked up before any of its code runs.

`conductor agent` hosts guests in a child with a router of its own (`conductor.run.segment`).
A tool that tries a guest out must see the guest's own lines, so here the child holds nothing but
instances: `guests` is this side, `guests_process` the other.

What is merely read of a stranger's module or source is read in such a child as well: `judge` is
this side of that, `judging` the other.
"""
