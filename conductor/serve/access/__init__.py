"""Who may connect: names of hosts, origins of pages, and tokens that show who a client is."""
