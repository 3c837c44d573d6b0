"""The client's end of a chain, for `conductor exec` and for programs that embed a chain.

connection   requests to the chain, and requests and updates from it
handlers     answers requests for permission and for files
acp          the differences between the versions of ACP for a client
session      a session, as a person's client knows it
talk         the client of a person; a page (`chat`) and a terminal (`conductor attach`) show it
visit        the messages of a client that attaches to sessions of others
editing      panels and comments of components beside a chat
values       the values that an embedding program gets: answers, updates, questions
chain        `conductor.open`: a chain within this program
"""
