"""Checks that the program does all that the documents say."""
