"""The engine of policies: what components may do, play by play."""
