"""Configuration: the files a user writes, and what they make of a command line.

model    what a `conductor.toml` holds, and what several of them make together
"""
