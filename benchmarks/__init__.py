"""Benchmarks of conductor, side by side with the Rust reference.

``python -m benchmarks`` starts chains of proxies before a fast native agent, drives
each with one native client, and prints medians and the goals. Nothing here is a timed
test: a slow machine fails nothing.

Map, in the order a run uses it:

==============  =============================================================
``options``     the command line -> ``Options``, and the programs that take part
``native``      builds agent, proxy, client and guest (C) and the SDK proxy, in a cache
``relay``       passes bytes between client and agent: the floor of a hop in Python
``revision``    builds another revision, to be measured beside this one
``chains``      the chains, and the command line of each
``metrics``     the table of metrics
``goals``       the table of goals: a figure of a chain beside one of another
``plan``        the chains that a run measures, and the steps of each
``session``     one chain alive: talks to the native client
``proctree``    CPU and memory of a process tree (Linux)
``measure``     one cell: all wished metrics of one chain, once
``run``         rounds over all chains, interleaved -> ``results.Results``
``stats``       percentiles, medians, the line through a row of chains
``report``      tables and JSON
``history``     one line of JSON a run, kept in the repository
``picture``     the goals of a run as SVG
==============  =============================================================
"""
