"""The manifest of a component, `component.toml`: what it is, what runs, what it asks for and why.

    values     what it may hold
    reading    from the file, strictly
    errors     what is wrong with one, in the words of its reader, with the line
    section    within a module, as a custom section of it
    powers     what it comes to: granted to what is bundled, only narrowed for what is not
    settings   the settings a user gave, held to what it says of them

It grants nothing by itself: a stranger's manifest can only ask, and narrow.
"""
