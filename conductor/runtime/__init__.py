"""Runs one chain on an event loop.

chain         Runtime: from the first message to the last process gone
connections   a transport for each peer, put in place, replaced and closed
flow          backpressure: who waits while somebody cannot take more
supervisor    failed components started again, new builds swapped in, long waits ended
tasks         what runs beside the messages, and errors that are this program's own
ending        what the end of a chain still waits for
health        how the components are, for whoever asks
"""

from conductor.runtime.chain import Runtime

__all__ = ["Runtime"]
