"""Answers as pictures: a page, a still drawing, a frame in a notebook.

Everything is drawn here, in Python, as plain HTML and SVG; the page's script only adds
zooming, pointing and choosing.
"""

from graphrag_core.query.drawing.answer import Answer
from graphrag_core.query.drawing.notebook import frame, show
from graphrag_core.query.drawing.page import page, svg

__all__ = ["Answer", "frame", "page", "show", "svg"]
