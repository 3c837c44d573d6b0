"""The record of what a chain's components do (`--audit FILE`; docs/log.md, "Audits").

auditor   decides what goes on record
changes   makes the record of a change
file      lines that each hold the digest of the line before; written, and verified
"""
