"""Words of a question in passages: by similar tokens and by stems."""

from __future__ import annotations

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.embedders import WordLlama

DOCUMENTS = [
    Document("car", "The automobile was repaired in a garage near the river."),
    Document("soup", "Soup is served with bread on Monday."),
    Document("pool", "Set broker_pool_limit to change the number of connections."),
]


def test_scores_do_not_tell_what_documents_outside_the_scope_contain():
    mine = [Document(d.id, d.text, metadata={"team": "a"}) for d in DOCUMENTS]
    other = [Document(f"other-{n}", f"Shelf {n} has glue.", metadata={"team": "b"}) for n in range(3)]
    asked = "Where is the car of the surgeon?"
    with KnowledgeIndex(WordLlama()) as index:
        index.add([*mine, *other])
        before = GraphRetriever(index, cache=False).retrieve(asked, where={"team": "a"})
        index.add([Document("other-0", "The surgeon has glue.", metadata={"team": "b"})])
        after = GraphRetriever(index, cache=False).retrieve(asked, where={"team": "a"})
    assert [hit.chunk.id for hit in before.hits] == [hit.chunk.id for hit in after.hits]
