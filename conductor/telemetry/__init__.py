"""Spans and metrics of a chain, made from the events of its trace.

Nothing here is loaded unless it is wanted.
"""
