"""The manifest of a component, `component.toml`: identity, command, requests with reasons.

    reading    its keys, read strictly
    drawn      the manifests of the bundled components, as JSON
    section    within a module, as a custom section
    grants     its effect: a bundled component gets what it requests, any other is only narrowed

A manifest grants nothing by itself: a stranger's manifest can only request, and narrow.
"""
