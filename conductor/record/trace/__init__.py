"""The messages that pass through a chain, written down (`--trace FILE`; docs/log.md, "Traces").

tracer    takes the entries of the log
hops      the two ends of each hop; hops across the borders of hosts, put together
events    writes hops as events
chain     the first line, which describes the components
services  calls of services and their answers, without secrets
file      private, written in large pieces, and never a hindrance to the chain
"""
