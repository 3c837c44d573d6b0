"""A model of a fleet of up to 10,000 workers: where it breaks first, and what is changed then.

Pure: a heap of events, a seed, and costs that were measured on one machine. What is steady is
computed (:mod:`.demand`) and checked against the single messages of a small fleet
(:mod:`.traffic`); what is sudden is played event by event (:mod:`.storms`).
"""
