"""Turn a result into text: a prompt within a token budget (``context``), what people are shown of a hit (``display``).

``retrieved`` has the values that a result holds. ``escape`` neutralises text from documents for a prompt, a terminal
or a page.
"""
