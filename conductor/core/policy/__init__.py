"""What a policed component may do to the conversation.

Two rules hold everything here:

1. **What passes on keeps its identity.** A component passes a request on under the id it was
   delivered under; any other id is a request of its own. An answer carries the id of its request.
   The conductor delivers requests under integers; a component's own ids are best strings. Where a
   program's library chooses ids, and for notifications, which have none, fixed rules decide what
   was passed on (`entries.meant`, `notifications`). Nothing is compared by likeness.
2. **What a component may not change does not pass through it: it gets a copy.** The original goes
   past it, in order. So nobody can drop, delay, reorder or answer what they may not change.

    key_table       modes, rights, and the table of keys
    rules           rights on keys, named grants, policies
    word_table, words, former_words
                    the words for all of it, as users write them
    scopes          words with a scope: files and addresses
    headings, params
                    the key, session and addresses of a message, and what they are read from
    states          the states of a carried request, and the table of its moves
    entries         what a component was given and has not passed on
    ordering        in which order messages leave it
    policy_state    one policed component
    sessions        folders, commands and parents of the sessions of a chain
    checks          whether a component may do what it does, and how a violation is reported
    requests, held_requests, notifications, turns, handshake
                    the engine: what components pass on, hold and send, and what comes back
    observers       copies of messages, and what components do with them
    ownership       which component owns which MCP servers
    own_terminals   which terminals of the editor's a component has opened
    changes         what components change, for an audit
    deadlines       what happens if something has not happened in time
"""
