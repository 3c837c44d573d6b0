"""Benchmarks of conductor, side by side with the Rust reference.

``python -m benchmarks`` starts chains of pass-through proxies before a fast
native agent, drives each with one native client, and prints medians, ratios and
the aims. Nothing here is a timed test: a slow machine fails nothing.

Map, in the order a run uses it:

==============  =============================================================
``options``     the command line -> ``Options``, and who takes part
``native``      builds agent, proxy, client (C) and the SDK proxy, in a cache
``chains``      which chains there are, and the command line of each
``session``     one chain alive: talks to the native client
``proctree``    CPU and memory of a process tree (Linux)
``measure``     one cell: all metrics of one chain, once
``run``         rounds over all chains, interleaved; ``Results``
``metrics``     the table of what is measured
``stats``       percentiles, medians, the line through a row of chains
``aims``        the acceptance ratios
``report``      tables and JSON
==============  =============================================================
"""
