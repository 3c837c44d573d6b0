"""What a fleet costs: a gateway and workers with NATS between, beside one server and bare NATS."""
