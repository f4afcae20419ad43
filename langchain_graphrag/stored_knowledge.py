"""``StoredKnowledgeExtractor``: the entities and relations that are stored with documents."""

from graphrag_core import Combined, KnowledgeExtractor
from graphrag_core.ports import Extractor
from langchain_graphrag.documents import knowledge_of


class StoredKnowledgeExtractor(Combined):
    """Runs another extractor and adds the knowledge stored with the documents.

    It has the identity of the other extractor, so an index that was built by the core alone is not extracted again.
    Stored knowledge is part of the document's metadata: a change of it is detected without a new identity.
    """

    def __init__(self, extractor: Extractor) -> None:
        super().__init__(extractor, KnowledgeExtractor(knowledge=knowledge_of))

    @property
    def identity(self) -> str:
        """The identity of the other extractor."""
        return str(getattr(self.extractors[0], "identity", type(self.extractors[0]).__qualname__))
