"""Chains on many machines: gateways take clients, workers run rooms, NATS stands between.

A *room* is the hub of one principal (`conductor.serve.room`), and the unit of placement: all its
chains run on one worker. A *lease* names this worker. The revision of the lease is the *epoch* that
every packet carries. Only `bus`, and the modules that keep values and bundles there, know of NATS.
"""
