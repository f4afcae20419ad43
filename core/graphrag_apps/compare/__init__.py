"""Measure whether the graph helps on your questions: recall of each method, and a verdict.

>>> from graphrag_core import Document, GraphRetriever, KnowledgeIndex
>>> from graphrag_core.testing import HashEmbedder
>>> index = KnowledgeIndex(HashEmbedder())
>>> _ = index.add([Document("auth", "The Auth Service trusts the OAuth Provider.", "Auth Service"),
...                Document("oauth", "It speaks to Keyring.", "OAuth Provider")])
>>> report = compare(GraphRetriever(index), [Question("Who is behind the Auth Service?", ("auth", "oauth"))], k=2)
>>> report.mean("hybrid", "recall@2").value
1.0
"""

from graphrag_apps.compare.compare import METHODS, compare
from graphrag_apps.compare.measures import Interval, Measure, bootstrap_interval, permutation_p
from graphrag_apps.compare.questions import Question, contains, load_questions
from graphrag_apps.compare.report import WITHOUT_GRAPH, Answered, Difference, Mean, Report
