"""The client's end of a chain: `conductor exec` is one, and a program that embeds a chain.

connection   requests to the chain, and requests and updates from it
handlers     how permission and files are answered
chat         the client of a person, whose page may come and go
values       what an embedding program gets: answers, updates, questions
chain        `conductor.open`: a chain within this program
"""
