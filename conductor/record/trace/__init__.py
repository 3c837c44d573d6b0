"""What passes through a chain, written down (`--trace FILE`; docs/cli.md, "Traces").

tracer     from messages to events
names      who the ends of a hop are
ways       hops across the borders of hosts, put together
messages   what is told of a message besides its bytes
records    what each component was given and said, for `conductor.record.replay`
file       private, written in large pieces, and never in the way of the chain
"""
