"""`conductor doctor`: what this machine and this installation offer, and what is missing.

checks    all of them, and how they are shown
guest     the check of the Python guest
finding   what a check comes to
"""
