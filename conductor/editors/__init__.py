"""Editors by name: where each keeps its agents, and how the conductor's entry gets in and out."""
