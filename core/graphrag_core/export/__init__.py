"""Export the graph of an index for other tools, and import a graph as told facts.

>>> from tempfile import TemporaryDirectory
>>> from graphrag_core import KnowledgeIndex
>>> one, two = KnowledgeIndex(), KnowledgeIndex()
>>> _ = one.remember("Harbour Team", "owns", "Keyring")
>>> with TemporaryDirectory() as folder:
...     exported = export_graph(one, f"{folder}/graph.graphml")
...     imported = import_graph(two, f"{folder}/graph.graphml")
>>> exported.facts, imported.facts, two.facts("keyring")[0].text
(1, 1, 'Harbour Team owns Keyring')
"""

from graphrag_core.export.read import Imported, import_graph
from graphrag_core.export.write import Exported, Format, export_graph

__all__ = ["Exported", "Format", "Imported", "export_graph", "import_graph"]
