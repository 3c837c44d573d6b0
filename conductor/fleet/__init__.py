"""Chains on many machines: gateways take clients, workers run rooms, NATS stands between.

A *room* is what one principal has (`conductor.serve.room`), and the unit of placement: all its
chains run on one worker. A *lease* says which worker that is, and its revision is the *epoch* that
every packet carries. Only `bus`, and what keeps values and bundles there, knows of NATS.
"""
