"""Transcripts of guests, for the tests beside: the format is the product's own."""

from pathlib import Path

from conductor.author import transcripts


def read_transcript(path: Path) -> list[transcripts.Delivery]:
    """The deliveries of a transcript, in order. Raises `ValueError` for one that is none."""
    return transcripts.read(path.read_bytes(), path.name)
