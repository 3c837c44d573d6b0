"""A trace as a person reads it: turns, and in each what every component made of the messages.

model    what is shown: turns, visits, items, edits; the page gets it as JSON
lines    where the lines of a trace are: in its file, or in memory
line     a line of a trace, as far as it is understood
fold     which event belongs to which, and to which turn: the one place that finds it out
seen     messages that others pass on
guesses  which those are, where the file does not say it
open_turn  a turn as it grows
reader   reads lines and keeps what the fold says of each, for who looks at them later
detail   a turn in detail
messages   updates in one form, whichever version of ACP they are of
edits    what a component changed in a message, in words
tokens   how many tokens a text has, about
filter   the language that chooses events
"""
