"""A fleet under test: its NATS servers, its editors, and its possible faults."""
