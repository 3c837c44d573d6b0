"""Chains under kills, stalls, swaps and floods, with an account of every message.

``python -m benchmarks.chaos --minutes 2 --seed 7``: see the section in ../README.md.

============  ================================================================
``options``   the command line -> ``Options``
``script``    the draws from the seed: chains, turns, harms, endings
``expected``  the updates that one turn must have
``ledger``    the checker: one entry a request, one verdict each
``wire``      the conductor as a process: pipes, lines, its exit code
``victims``   the processes below it: victims to kill or stop, and leftovers
``life``      one chain from its first message to its last process
``rounds``    one round of a life: turns and harms at the same time
``endings``   the ways a life ends
``report``    the table, JSON and the exit code
============  ================================================================
"""
