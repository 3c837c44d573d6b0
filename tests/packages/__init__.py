"""Packages: their sources, their refusals, and their store."""
