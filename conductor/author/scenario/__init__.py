"""Scenarios that an author writes by hand: `test-scenarios/NAME/scenario.toml`.

file          what the file may hold, and how it is read
script        its client and agent, written as the trace of a chain without proxies
recorded      a trace written as such a file
expectations  what each step expects, held to the trace of a run
play          runs the proxies between the two, as a replay does

A replay runs a recorded trace; a scenario in TOML is turned into one, so both have one runner.
"""
