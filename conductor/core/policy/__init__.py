"""What a policed component may do to the conversation.

Two rules hold everything here:

1. **What passes on keeps its identity.** A component passes a request on under the id it was
   delivered under; any other id is a request of its own. An answer carries the id of its request.
   The conductor delivers requests under integers; a component's own ids are best strings. Where a
   program's library chooses ids, and for notifications, which have none, fixed rules say what was
   passed on (`given`). Nothing is compared by likeness.
2. **What a component may not change does not pass through it: it gets a copy.** The original goes
   past it, in order. So nobody can drop, delay, reorder or answer what they may not change.

    rights      modes, rights, the table of keys; profiles, named grants, policies
    words       how a policy is written, and how older words are read
    keys        the key, session and address of a message
    moves       the states of a carried request, and the table of its moves
    given       what a component was given and what waits for it, in order of arrival
    gate        one policed component
    sessions    folders, commands and parents of the sessions of a chain
    verdicts    whether a component may do what it does, and how a violation is reported
    copies      copies of requests and answers, and what comes back of them
    requests, answers, notifications, turns, handshake
                the engine: what components pass on, send and hold, and what comes back
    enforcer    the parts of one chain's engine, put together
"""
