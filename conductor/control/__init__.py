"""The control socket: where the commands of the same user reach a running chain.

protocol  the lines, and what they mean
places    the private folders of the sockets
server    in the process of the chain
client    in that of a command
state     what a chain shows of itself
watching  follows all chains, for who watches
"""
