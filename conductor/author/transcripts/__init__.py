"""Transcripts of components: read, and played against them (`conductor test`).

transcript     what is delivered, and the exact outbox that must come back
playing        the components: guests, and programs
wire           the dialect `acp` as lines of the channel, for WASI commands
line_program   a program on its two pipes, line by line
"""
