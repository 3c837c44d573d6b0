"""A trace of a ring's entries, made when a chain fails or somebody asks (docs/log.md, "Rings").

played   gives the entries of a ring to another sink
figures  counts them, for those who watch
file     writes them as a trace
"""
