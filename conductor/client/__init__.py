"""The client's end of a chain: `conductor exec` is one, and a program that embeds a chain.

connection   requests to the chain, and requests and updates from it
handlers     how permission and files are answered
acp          what the versions of ACP say differently to a client
session      what a person's client knows of a session
talk         the client of a person; a page (`chat`) and a terminal (`conductor attach`) show it
visit        what a client says and reads that attaches to sessions of others
editing      what components show beside a chat
values       what an embedding program gets: answers, updates, questions
chain        `conductor.open`: a chain within this program
"""
