"""The pure core: bytes of one peer go in, effects come out. No waiting, no clock, no logging.

Each module imports only modules listed above it; `tests/test_imports.py` checks that. `parts` alone
names all that a router is made of.

The package itself gives names for what goes in and out. Who runs a router takes
`conductor.core.router`: the engine is the larger part, and a chain loads it once its agent starts.

    json_text       JSON read without parsing all of it: nesting, number of values, members
    jsonrpc         frames become messages; error codes; ids
    dialects        the generations of the proxy protocol as a table; envelopes opened
    writer          messages written in a dialect
    effects         what the router asks the shell to do
    accounts        what a component may cost, and what it has spent
    component       a component as the router gets it
    agent_sessions  the sessions of an agent that may be started again
    payloads        long texts that a component gets as references

    policy, guards  what a policed component may do; see those packages
    state           peers, their lanes, requests
    session         all that is known of one session
    topology        the peers of one chain, joined
    tracing         the entries of a log, and the numbers of messages
    adaptation      what an agent does not take, in words
    additions       what components added to prompts, and where an agent repeats it
    exchange        send, answer, refuse: what all parts below do with messages
    policy          who carries a message, and what is allowed

    editor          whose a panel or comment is, and who gets what the editor says of it
    held_prompts    prompts of the client that wait for their release
    questions       what the conductor itself asks and tells the client
    replays         what the client gets of its prompts and titles, without such additions
    agent_turns     what an agent says of its turns in version 2
    roles           how `initialize` walks the chain, and which dialect a proxy speaks
    services        what proxies may ask of the conductor itself
    endings         peers, turns and chains that end
    reviving        an agent that is started again gets where it was
    requests        requests accepted and routed; answers matched and completed
    oversize        frames that no transport takes
    dispatch        the one path of every message
    rearranging     other components in a running chain
    router          what the shells ask of the core

    restart_state   what a shell does when a component fails
"""

from conductor.core.component import UPSTREAM, Component
from conductor.core.dialects import CHANNEL, DIALECTS, Dialect
from conductor.core.effects import (
    Adapted,
    Answered,
    Changed,
    Closure,
    Effect,
    Entry,
    Fail,
    Held,
    Keep,
    Listen,
    LogLine,
    OwnedAddresses,
    Propagate,
    Reached,
    Recall,
    Reopen,
    Resolve,
    Send,
    Serve,
    Silent,
    Violated,
    Wake,
)
from conductor.core.service_table import SERVICES

__all__ = [
    "CHANNEL",
    "DIALECTS",
    "SERVICES",
    "UPSTREAM",
    "Adapted",
    "Answered",
    "Changed",
    "Closure",
    "Component",
    "Dialect",
    "Effect",
    "Entry",
    "Fail",
    "Held",
    "Keep",
    "Listen",
    "LogLine",
    "OwnedAddresses",
    "Propagate",
    "Reached",
    "Recall",
    "Reopen",
    "Resolve",
    "Send",
    "Serve",
    "Silent",
    "Violated",
    "Wake",
]
