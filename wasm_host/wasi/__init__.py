"""The parts of WASI that guests get."""
