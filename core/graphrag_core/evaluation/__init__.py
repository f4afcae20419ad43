"""Measure whether the graph helps on one's own questions: recall of each method, and a verdict.

Import from here: ``compare``, which runs the questions, and the values it takes and returns;
``bootstrap_interval`` and ``resampled_means``, which say how far a mean over questions can be believed.

>>> from graphrag_core import Document, GraphRetriever, KnowledgeIndex
>>> from graphrag_core.testing import HashEmbedder
>>> index = KnowledgeIndex(HashEmbedder())
>>> _ = index.add([Document("auth", "The Auth Service trusts the OAuth Provider.", "Auth Service"),
...                Document("oauth", "It speaks to Keyring.", "OAuth Provider")])
>>> report = compare(GraphRetriever(index), [Question("Who is behind the Auth Service?", ("auth", "oauth"))], k=2)
>>> report.score("hybrid").recall
1.0
"""

from graphrag_core.evaluation.bootstrap import Interval, bootstrap_interval, resampled_means
from graphrag_core.evaluation.compare import METHODS, WITHOUT_GRAPH, Answered, Question, Report, Score, compare

__all__ = [
    "METHODS",
    "WITHOUT_GRAPH",
    "Answered",
    "Interval",
    "Question",
    "Report",
    "Score",
    "bootstrap_interval",
    "compare",
    "resampled_means",
]
