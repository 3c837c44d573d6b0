"""One component run again on what a trace recorded of it, and the agent of a trace.

recording   the lines that a trace recorded of a component
messages    its lines as messages on its sides, whatever dialect it speaks
player      delivers them again, and compares what the component sends with what it sent
agent       answers as the agent of the trace did
"""
