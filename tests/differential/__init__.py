"""Two revisions of the conductor play the same storms; whoever is sent anything gets the same.

python -m tests.differential --against REVISION --plays 4000 --seed 1
"""
