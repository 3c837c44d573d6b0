"""Peers over HTTP and WebSocket: who interoperates with whom."""
