"""The same proxy in each language, measured: ``python -m benchmarks.languages``.

    rows      the languages, and the way to build each proxy: ``conductor test --build``
    ways      a proxy that gets messages: in a segment of this process, or through pipes
    trips     the same proxy in a real chain, from the client's side
    agent     the end of those chains
    measure   one round of one language; the medians of all rounds
    report    the table, the aim, JSON

The proxy comes from ``conductor new``: it puts a text block in front of every prompt and lets
all other messages pass.
"""
