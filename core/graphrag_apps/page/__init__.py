"""Turns a Result into one self-contained HTML page, for a file, a browser or a notebook cell.

Import ``page``, ``show`` and ``frame`` from here; ``svg`` is the graph alone, as a picture.
"""

from graphrag_apps.page.page import frame, page, show, svg
