"""The manifest of a component, `component.toml`: what it is, what runs, what it requests and why.

    reading    what it may hold, read strictly
    drawn      those of the bundled components, as JSON
    section    within a module, as a custom section
    grants     its effect: a bundled component gets what it requests, any other is only narrowed

A manifest grants nothing by itself: a stranger's can only request, and narrow.
"""
