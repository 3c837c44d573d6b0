"""What the conductor offers proxies on the channel (docs/channel-abi.md, "Services").

`local` needs no more than a clock; guests' hosts answer those themselves. All others are performed
by the conductor's own process, by its `desk`: `kv`, `timer`, `fetch`, `files` and `metric`.
"""
