"""A trace of what a ring holds, made when a chain fails or somebody asks (docs/log.md, "Rings").

played   gives the entries of a ring to another sink
figures  counts them, for who watches
file     writes them as a trace
"""
