"""What a chain at an address costs: ``python -m benchmarks.remote``, see ../README.md."""
