"""What passes through a chain, written down (`--trace FILE`; docs/log.md, "Traces").

tracer    takes what is seen of messages
hops      who the ends of a hop are; hops across the borders of hosts, put together
events    writes hops as events
chain     its first line, which says what the components are
services  what passes between components and services, without secrets
file      private, written in large pieces, and never a hindrance to the chain
"""
