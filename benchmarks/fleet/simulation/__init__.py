"""A model of a fleet of up to 10,000 workers: its first breaks, and the changes against them.

Pure: a heap of events, a seed, and costs that were measured on one machine. Steady load is
computed (:mod:`.demand`) and checked against the single messages of a small fleet
(:mod:`.traffic`); sudden load is played event by event (:mod:`.storms`).
"""
