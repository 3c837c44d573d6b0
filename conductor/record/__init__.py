"""The files that a chain leaves on disk, traces and audits; their replay and their comparison."""
