"""Packages: where they come from, what is refused of them, and how they are kept."""
