"""A trace as a person reads it: turns, and in each the work of every component on the messages.

model    the objects that are shown: turns, visits, items, edits; the page gets them as JSON
lines    where the lines of a trace are: in its file, or in memory
line     a line of a trace, as far as it is understood
fold     finds which events belong together, and to which turn; nothing else does
seen     messages that others pass on
guesses  guesses which messages others pass on, where the file does not say it
open_turn  a turn as it grows
reader   reads lines and keeps the fold's result of each, for a later look
detail   a turn in detail
messages   updates in one form, whichever version of ACP they are of
edits    a component's changes of a message, in words
tokens   how many tokens a text has, about
filter   the language that chooses events
"""
