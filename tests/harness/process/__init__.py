"""Real processes: a conductor by its command line, its client, and the table of processes."""
