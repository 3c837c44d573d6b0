"""The cost of a chain at an address: ``python -m benchmarks.remote``, see ../README.md."""
