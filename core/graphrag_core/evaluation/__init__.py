"""Measure whether the graph helps on your questions: recall of each method, and a verdict.

Import from here: ``compare``, which runs the questions, and the values it takes and returns;
``load_questions``; measures such as ``Recall``;
``bootstrap_interval`` and ``permutation_p``, which say how far a mean over questions can be believed;
``reliability``, which says how often hits with a score are right.

>>> from graphrag_core import Document, GraphRetriever, KnowledgeIndex
>>> from graphrag_core.testing import HashEmbedder
>>> index = KnowledgeIndex(HashEmbedder())
>>> _ = index.add([Document("auth", "The Auth Service trusts the OAuth Provider.", "Auth Service"),
...                Document("oauth", "It speaks to Keyring.", "OAuth Provider")])
>>> report = compare(GraphRetriever(index), [Question("Who is behind the Auth Service?", ("auth", "oauth"))], k=2)
>>> report.mean("hybrid", "recall@2").value
1.0
"""

from graphrag_core.evaluation.bootstrap import Interval, bootstrap_interval, permutation_p
from graphrag_core.evaluation.compare import (
    METHODS,
    WITHOUT_GRAPH,
    Answered,
    Difference,
    Latency,
    Mean,
    Report,
    compare,
)
from graphrag_core.evaluation.measures import MRR, NDCG, AllGold, Judgement, Measure, Precision, Recall, Success
from graphrag_core.evaluation.questions import Question, contains, load_questions
from graphrag_core.evaluation.reliability import Bin, reliability

__all__ = [
    "METHODS",
    "MRR",
    "NDCG",
    "WITHOUT_GRAPH",
    "AllGold",
    "Answered",
    "Bin",
    "Difference",
    "Interval",
    "Judgement",
    "Latency",
    "Mean",
    "Measure",
    "Precision",
    "Question",
    "Recall",
    "Report",
    "Success",
    "bootstrap_interval",
    "compare",
    "contains",
    "load_questions",
    "permutation_p",
    "reliability",
]
