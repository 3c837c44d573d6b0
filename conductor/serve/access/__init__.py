"""Decides who may connect: names of hosts, origins of pages, and tokens that identify a client."""
