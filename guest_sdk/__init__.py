"""Libraries for authors of sandboxed proxies: one folder a language, one contract.

The contract is the channel ABI, ``channel/1`` (docs/architecture.md#the-channel). Nothing here is
imported by the conductor; the folders travel in the wheel so that an author has the
library that fits the installed conductor.
"""
