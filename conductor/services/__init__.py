"""The services that the conductor offers proxies on the channel (docs/architecture.md, "Services").

`conductor.core.service_table` has the table. `local` performs calls that need nothing outside, in
the process that runs the proxy; `executor` performs all others, in the conductor's own process.
"""
