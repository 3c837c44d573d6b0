"""Configuration: the files a user writes, and what they make of a command line.

model    what a `conductor.toml` holds, and what several of them make together
layers   which files count; reading: one of them; places: where its entries stand
names    what the name of a chain or of a component stands for; anchors: paths within a file
choose   the chain that fits a project; project: what the project has; dependencies: what its
         manifests list
"""
