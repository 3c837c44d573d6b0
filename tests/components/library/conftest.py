"""A rig of chains for the library's components."""

from __future__ import annotations

from tests.harness.process.scripted import scripted_rig

__all__ = ["scripted_rig"]
