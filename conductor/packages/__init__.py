"""Packages: components from elsewhere, how they are fetched and kept.

    add: source ─▶ package ─▶ checked (digest, signature, manifest) ─▶ store ─▶ receipt

A package is a component as it is distributed: a file, an archive, a git tree, an OCI artifact, a
wheel. Nothing of a package runs before the user has agreed. `conductor.spec.installed` reads the
files that this package writes, so that starting a chain loads nothing of it.
"""
