"""The pure core: playbooks, chains to start them from, and pass-through actors of each dialect."""
