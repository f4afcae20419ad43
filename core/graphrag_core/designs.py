"""The five published designs, each as one complete :class:`~graphrag_core.SearchSettings` value.

>>> from graphrag_core import Document, GraphRetriever, KnowledgeIndex
>>> from graphrag_core.testing import HashEmbedder
>>> with KnowledgeIndex(HashEmbedder()) as index:
...     _ = index.add([Document("auth", "The Auth Service delegates to the OAuth Provider.", "Auth Service")])
...     GraphRetriever(index, KG2RAG).retrieve("What does the Auth Service need?").hits[0].graph_expansion
'Auth Service OAuth Provider'

docs/seeds.md lists what each consists of, by the number of its document, 000 to 004. A field is changed as
in any other settings: ``KG2RAG.replace(k=10)``.
"""

from collections.abc import Mapping

from graphrag_core.context.settings import ContextFormat
from graphrag_core.query.fusion import Additive, Gate, OwnScores, ReciprocalRank, Weighted
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.routing import Router, Rule
from graphrag_core.query.settings import SearchSettings
from graphrag_core.strategies import (
    CitationGraph,
    ExpansionQueries,
    Neighbourhood,
    RelatedEntities,
    Relevance,
    SpreadingActivation,
)

# No document has our second stage, our scores or our format of the context.
_PUBLISHED = SearchSettings(candidates=100, gate=Gate(), reranker=False, context=ContextFormat(published=True))

_NO_LIMIT = 1_000_000  # tokens: only the block of design 000 and the context of design 001 have a budget

HYBRID = _PUBLISHED.replace(
    method="hybrid",
    k=5,
    vector_weight=0.6,
    recogniser=Recogniser(
        most_words=3,
        every_part=True,
        most=5,
        nearest=3,
        least_similarity=0.75,
        needs_name_vectors=True,
    ),
    graph=Neighbourhood(hops=1, max_chunks=4, most_neighbours=None, stated=True),
    fusion=Additive(max_chunks=None, fusion=Weighted(alpha=0.7, beta=0.3, relative_scores=False)),
    on_embedder_error="raise",
    context=ContextFormat(max_tokens=_NO_LIMIT, style="both", published=True),
)
"""Document 000: 0.7 · plain score + 0.3 · graph proximity; the graph adds up to 4 passages and removes none."""

CONFIDENT = _PUBLISHED.replace(
    method="hybrid",
    k=5,
    recogniser=Recogniser(phrases=5, nearest=0),
    graph=RelatedEntities(hops=1, max_chunks=4, stated=True),
    fusion=OwnScores(same_start=100),
    gate=Gate(min_confidence=0.5, min_graph_score=0.3, needs_entity=True, min_score=0.7, weigh_by_confidence=True),
    on_embedder_error="keyword",
    context=ContextFormat(max_tokens=4_000, style="passages", published=True),
)
"""Document 001: vector hits from cosine 0.7 on, and the passages of related entities, if the confidence allows it."""

KG2RAG = _PUBLISHED.replace(
    method="hybrid",
    k=5,
    vector_weight=1.0,
    graph=ExpansionQueries(depth=2, hits=3, most_queries=None, most_neighbours=None, stated=True, same_start=100),
    fusion=ReciprocalRank(k=60),
    on_embedder_error="raise",
)
"""Document 002: searches for "{seed} {neighbour}", joined with vector search by reciprocal rank."""

MEMORY = _PUBLISHED.replace(
    method="graph",
    k=30,
    graph=SpreadingActivation(anchors=3, hops=2, max_facts=30, facts_per_entity=10, relevance=Relevance()),
    recogniser=Recogniser(needs_name_vectors=True),
    fusion=ReciprocalRank(k=60),
    on_embedder_error="keyword",
    context=ContextFormat(max_tokens=_NO_LIMIT, style="narrative", published=True),
)
"""Document 003: facts around the 3 entities nearest to the question, by relevance, told as a narrative."""

RESEARCH = _PUBLISHED.replace(
    method="agentic",
    k=10,
    candidates=10,
    router=Router(
        rules=(
            Rule("citation", "graph", patterns=("cite", "reference")),
            Rule("paper", "vector", patterns=("arxiv", "paper:")),
            Rule("comparison", "hybrid", patterns=("vs", "compare")),
            Rule("overview", "hybrid", patterns=("overview", "survey")),
        ),
        otherwise="hybrid",
    ),
    graph=CitationGraph(depth=2, relations=("cites",)),
    fusion=ReciprocalRank(k=60, weights={"vector": 0.5, "graph": 0.5}),
    on_embedder_error="raise",
)
"""Document 004: rules choose vector, graph or both; both are joined by reciprocal rank with 0.5 each."""

DESIGNS: Mapping[str, SearchSettings] = {
    "hybrid": HYBRID,
    "confident": CONFIDENT,
    "kg2rag": KG2RAG,
    "memory": MEMORY,
    "research": RESEARCH,
}
"""The designs by name."""
