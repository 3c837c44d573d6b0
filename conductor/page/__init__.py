"""The local page of a trace, and of a chat."""
