"""Measures the page of a trace in a real browser: how soon it can be read, how it scrolls."""
