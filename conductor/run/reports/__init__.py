"""What hosts of guests tell of them, by notifications on side `c` that no proxy may send.

lines        the reports, as a host writes them
changes      what guests change, for an audit
deliveries   what is delivered to them and what they say to that, for a trace
received     what is believed of all that, and who is told
"""
