"""The acts on the conversation that a policed component may do.

Two rules hold everything here:

1. **A message keeps its identity.** A component passes a request on under the id it was
   delivered under; any other id is a request of its own. An answer carries the id of its request.
   The conductor delivers requests under integers; a component's own ids are best strings. Where a
   program's library chooses ids, and for notifications, which have none, fixed rules decide which
   message was passed on (`entries.meant`, `notifications`). Nothing is compared by likeness.
2. **A message that a component may not change does not pass through it: it gets a copy.** The
   original goes past it, in order. So nobody can drop, delay, reorder or answer a message that
   they may not change.

    key_table       modes, rights, and the table of keys
    rules           rights on keys, named grants, policies
    word_table, words, former_words
                    the words for all of it, as users write them
    scopes          words with a scope: files and addresses
    headings        the key, session and addresses of a message, and where these are read
    states          the states of a carried request, and the table of its moves
    entries         the messages that a component was given and has not passed on
    ordering        the order in which messages leave it
    policy_state    one policed component
    sessions        folders, commands and parents of the sessions of a chain
    checks          whether a component may send a message, and how a violation is reported
    requests, held_requests, notifications, turns, handshake
                    the engine: messages that components pass on, hold and send, and their answers
    cancellations   turns and requests that are cancelled
    own_answers     the names of components in their own errors and refusals
    observers       copies of messages, and how components pass these on
    ownership       which component owns which MCP servers
    own_terminals   which terminals of the editor's a component has opened
    changes         the changes of components, for an audit
"""
