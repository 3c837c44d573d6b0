"""What a chain is made of: components as they are written, resolved, declared and locked."""
