"""`conductor check`: whether a component keeps the contract of proxies (docs/channel-abi.md).

values    what a payload says, and whether another says the same
ends      a scripted client, or agent
tap       the component's transport, listened to
chain     both ends around one component, and what most checks do
forwarding, requests, identity, payloads, sessions, ending, lines    the checks
table     their list: the rule of each, and where it is written
suite     how each is run by itself, in bounded time
"""
