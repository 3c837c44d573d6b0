"""What a chain leaves on disk: traces and audits, and what replays and compares them."""
