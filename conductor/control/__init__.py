"""The control socket: where commands of the same user reach a running chain."""
