"""The parts of a chain: components as they are written, resolved, declared and locked."""
