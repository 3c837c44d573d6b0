"""A fleet under test: its NATS servers, its editors, and what may have gone wrong."""
