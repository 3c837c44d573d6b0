"""Configuration: the files that a user writes, and the options that they add to a command line.

model    the content of a `conductor.toml`, and the configuration that several files make together
layers   which files count; reading: one file; places: where its entries stand
names    the meaning of the name of a chain or of a component; anchors: paths within a file
choose   the chain that fits a project; project: its files and packages; dependencies: the
         packages in its manifests
"""
