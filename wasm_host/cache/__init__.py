"""Compiled modules on disk: how they are compiled, stored, verified and removed."""
