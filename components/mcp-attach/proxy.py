"""Entry point of mcp-attach: ``python proxy.py`` (see README.md).

Kept to an import and a call: Python compiles the script it is given anew on every start,
while the modules it imports come from the bytecode cache.
"""

from attach_main import main

if __name__ == "__main__":
    main()
