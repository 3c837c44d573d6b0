"""What a chain's components do, on record (`--audit FILE`; docs/cli.md, "Audits").

auditor   what goes on record
changes   what is said of one change
file      lines that each hold the digest of the line before; written, and verified
"""
