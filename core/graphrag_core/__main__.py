"""``python -m graphrag_core``: the command line."""

from graphrag_core.cli import main

if __name__ == "__main__":
    main()
