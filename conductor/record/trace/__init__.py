"""What passes through a chain, written down (`--trace FILE`; docs/log.md, "Traces").

tracer    takes what is seen of messages
hops      who the ends of a hop are; hops across the borders of hosts, put together
events    writes hops as events
chain     what its header says of components
records   the lines that each component got and sent, for `conductor.record.replay`
file      private, written in large pieces, and never a hindrance to the chain
"""
