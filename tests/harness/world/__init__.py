"""Random conversations around the core: what the ends say, what guests do, and what must hold."""
