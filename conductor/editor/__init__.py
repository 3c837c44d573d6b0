"""The editor's side: panels and comments beside the conversation (docs/editors.md).

transport   before the client's transport; loads the rest with the first such message
messages    the messages of the editor's side, as types
content     words for types of content that an editor does not show
urls        the paths that URLs of files name
html        HTML of components as Markdown
texts       a panel or comment as text, for an editor that cannot show it
desk        pure: keeps panels and comments, and knows their owners
"""
