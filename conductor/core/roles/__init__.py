"""How each peer gets its role: `initialize`, versions, dialects, and roles of restarted peers."""
