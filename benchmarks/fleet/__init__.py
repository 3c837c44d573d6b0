"""The cost of a fleet: a gateway and workers with NATS between, beside one server and bare NATS."""
