"""`conductor test`: whether a component keeps the contract of proxies (docs/architecture.md).

scripted_chain   a scripted client and agent around one component
passing, ids, sessions, robustness   the checks, by topic
table            their list: the rule of each, and where it is written
suite            runs each by itself, in bounded time
against          the same for programs of anybody's: agents (agents), and conductors
program          one such program between the ends
"""
