"""conductor: runs chains of ACP proxies between an editor and a coding agent."""
