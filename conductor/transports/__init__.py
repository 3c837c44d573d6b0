"""Transports carry lines between the conductor and one component.

    base      Transport, Events, Ended: the contract (tests/transports runs one suite over all)
    framing   bytes -> lines (pure)
    fds       non-blocking descriptors on the event loop
    stdio     the conductor's own standard input and output
    process   a subprocess
    process_groups  ends processes that components have started, also if the conductor is killed
    memory    a component in this process
    guest     a sandboxed module in this process
    socket    a connection that comes in on a private Unix socket

Submodules are imported where they are needed: only `base`, `framing` and `process` may be loaded
before the event loop's modules.
"""
