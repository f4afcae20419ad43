"""``python -m graphrag_apps``: the command line."""

from graphrag_apps.cli import main

if __name__ == "__main__":
    main()
