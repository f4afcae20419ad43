"""Measure whether the graph helps on your questions: recall of each method, and a verdict.

Import from here: ``compare``, which runs the questions, and the values it takes and returns;
``load_questions``; ``Measure``, of which ``recall@5`` is one;
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

from graphrag_apps.compare.compare import (
    METHODS,
    WITHOUT_GRAPH,
    Answered,
    Difference,
    Mean,
    Report,
    compare,
)
from graphrag_apps.compare.measures import (
    Bin,
    Interval,
    Measure,
    bootstrap_interval,
    permutation_p,
    reliability,
)
from graphrag_apps.compare.questions import Question, contains, load_questions
