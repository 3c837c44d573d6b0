"""Entry point of the demo agent: ``python agent.py [--flags]`` (see README.md).

Kept to an import and a call: Python compiles the script it is given anew on every start,
while the modules it imports come from the bytecode cache.
"""

from demo_main import main

if __name__ == "__main__":
    main()
