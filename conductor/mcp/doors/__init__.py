"""How an agent reaches the bridge: a shim on stdio and a server on loopback HTTP."""
