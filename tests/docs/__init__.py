"""Checks that what the documents say is what the program does."""
