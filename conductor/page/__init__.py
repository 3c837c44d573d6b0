"""The local page of a trace, and of a chat.

server     serves the page and its data to one browser of this user
data       answers the page's requests about a trace
choice     the events that a page looks at: of a turn, of a component, by a filter
source     the trace that is shown: a file that may grow, or a chain that runs
running    the chain of a chat, as such a source
chat       the requests of the page of a chat
elsewhere  pauses components of the chain that writes the trace
posts      requests that change something; a page pauses components
saved      the page and its data as one file
static     the page itself: plain modules, no build step
"""
