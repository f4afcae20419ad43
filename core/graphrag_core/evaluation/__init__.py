"""Measure whether the graph helps on one's own questions: recall of each method, and a verdict.

Import from here: ``compare``, which runs the questions, and the values it takes and returns;
``load_questions`` and ``generate_questions``; measures such as ``Recall``; ``tune``, which chooses settings;
``bootstrap_interval``, ``resampled_means`` and ``permutation_p``, which say how far a mean over questions can be
believed;
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

from graphrag_core.evaluation.bootstrap import Interval, bootstrap_interval, permutation_p, resampled_means
from graphrag_core.evaluation.calibration import Bin, Judged, fit_calibration, judge_hits, reliability, scores_of
from graphrag_core.evaluation.compare import (
    METHODS,
    WITHOUT_GRAPH,
    Answered,
    Difference,
    Latency,
    Mean,
    Report,
    Score,
    compare,
)
from graphrag_core.evaluation.generate import generate_questions
from graphrag_core.evaluation.measures import MRR, NDCG, AllGold, Judgement, Measure, Precision, Recall, Success
from graphrag_core.evaluation.questions import Question, contains, load_questions, save_questions
from graphrag_core.evaluation.tune import SETTINGS, Setting, Tuning, tune

__all__ = [
    "METHODS",
    "MRR",
    "NDCG",
    "SETTINGS",
    "WITHOUT_GRAPH",
    "AllGold",
    "Answered",
    "Bin",
    "Difference",
    "Interval",
    "Judged",
    "Judgement",
    "Latency",
    "Mean",
    "Measure",
    "Precision",
    "Question",
    "Recall",
    "Report",
    "Score",
    "Setting",
    "Success",
    "Tuning",
    "bootstrap_interval",
    "compare",
    "contains",
    "fit_calibration",
    "generate_questions",
    "judge_hits",
    "load_questions",
    "permutation_p",
    "reliability",
    "resampled_means",
    "save_questions",
    "scores_of",
    "tune",
]
