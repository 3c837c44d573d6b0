"""The local page of a trace, and of a chat.

server     serves the page and its data to one browser of this user
data       answers what the page asks about a trace
choice     which events it looks at: of a turn, of a component, by a filter
source     what is shown: a file that may grow, or a chain that runs
running    the chain of a chat, as such a source
chat       what the page of a chat asks and does
elsewhere  pauses components of the chain whose trace it is
posts      requests that do something; components are paused from a page
saved      the page and its data as one file
static     the page itself: plain modules, no build step
"""
