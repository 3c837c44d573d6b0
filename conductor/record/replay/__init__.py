"""One component run again on what a trace recorded of it, and the agent of a trace.

record    what a trace records of one component, read
player    the component given that again
expected  what it said then, and whether what it says now is that
targets   the component: a guest in this process, or a program
wire      its lines as messages on its sides, whatever dialect it speaks
agent     answers whoever asks what was asked then
"""
