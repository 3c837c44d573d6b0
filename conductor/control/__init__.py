"""The control socket: where the commands of the same user reach a running chain.

protocol  the lines, and their meaning
places    the private folders of the sockets
server    in the process of the chain
client    in the process of a command
state     the state of a chain, as commands show it
watching  follows all chains, for those who watch
"""
