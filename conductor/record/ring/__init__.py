"""A trace of what a ring holds, made when a chain fails or somebody asks (docs/cli.md, "Rings").

wire     reads the lines of a chunk
passed   which message that a peer got is on its way from which other
joined   puts lines together as hops: who sent what a peer got
figures  counts them, for who watches
file     writes the hops as a trace reads them (`conductor.record.trace.events`)
"""
