"""A trace as a person reads it: turns, and in each what every component made of the messages.

model    what is shown: turns, visits, items, edits; `conductor trace view` sends it as JSON
"""
