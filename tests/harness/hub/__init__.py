"""The hub of a server alone: clients and agents that a test plays, and every effect performed."""
