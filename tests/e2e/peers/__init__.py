"""End-to-end tests against peers nobody here wrote: see README.md."""
