"""Measure whether the graph helps on one's own questions: recall of each method, and a verdict.

Import from here: ``compare``, which runs the questions, and the values it takes and returns;
``bootstrap_interval`` and ``resampled_means``, which say how far a mean over questions can be believed;
``judge_hits``, ``fit_calibration`` and ``reliability``, which fit the scores of hits to one's own questions.

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
from graphrag_core.evaluation.calibration import Bin, Judged, fit_calibration, judge_hits, reliability, scores_of
from graphrag_core.evaluation.compare import METHODS, WITHOUT_GRAPH, Answered, Question, Report, Score, compare

__all__ = [
    "METHODS",
    "WITHOUT_GRAPH",
    "Answered",
    "Bin",
    "Interval",
    "Judged",
    "Question",
    "Report",
    "Score",
    "bootstrap_interval",
    "compare",
    "fit_calibration",
    "judge_hits",
    "reliability",
    "resampled_means",
    "scores_of",
]
