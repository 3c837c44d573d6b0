"""What a chain's components do, on record (`--audit FILE`; docs/log.md, "Audits").

auditor   what goes on record
changes   the record of a change
file      lines that each hold the digest of the line before; written, and verified
"""
