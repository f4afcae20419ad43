"""LlamaIndex's node postprocessors, and rerankers of the core, as the retriever's reranker."""

from __future__ import annotations

import asyncio
import re
import sys
from types import SimpleNamespace

import pytest
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.postprocessor import (
    LLMRerank,
    LongContextReorder,
    MetadataReplacementPostProcessor,
    SentenceTransformerRerank,
    SimilarityPostprocessor,
)
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode
from llama_support import QUESTION, Hashed, ids, make_nodes

from graphrag_core import Chunk, CrossEncoder
from graphrag_core.errors import RerankerError
from graphrag_core.testing import CHAIN, HashEmbedder
from llama_graphrag import GraphRAGRetriever

PATIENCE = 30  # timeout in seconds of what must not hang


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def overlap(question: str, text: str) -> float:
    return len(words(question) & words(text)) - len(text) / 1_000


def by_overlap(question, chunks):
    return [overlap(question, chunk.text) for chunk in chunks]


class Overlap(BaseNodePostprocessor):
    """Scores by common words and writes the score into the nodes, as LlamaIndex's rerankers do."""

    top_n: int = 20
    sign: int = 1

    def _postprocess_nodes(self, nodes, query_bundle=None):
        for node in nodes:
            node.score = self.sign * overlap(query_bundle.query_str, node.node.get_content(MetadataMode.NONE))
            node.node.metadata["retrieval_score"] = "scribble"
        return sorted(nodes, key=lambda node: -node.score)[: self.top_n]


class Service(Overlap):
    """Has a coroutine of its own; the plain method must not be called."""

    def _postprocess_nodes(self, nodes, query_bundle=None):
        raise AssertionError("the plain method was called")

    async def _apostprocess_nodes(self, nodes, query_bundle=None):
        await asyncio.sleep(0)
        return Overlap(top_n=self.top_n)._postprocess_nodes(nodes, query_bundle)


class Chooses(CustomLLM):
    """Chooses three documents of each prompt."""

    @property
    def metadata(self):
        return LLMMetadata(model_name="chooses")

    def complete(self, prompt, formatted=False, **kwargs):
        return CompletionResponse(text="Doc: 3, Relevance: 9\nDoc: 1, Relevance: 7\nDoc: 2, Relevance: 7\n")

    def stream_complete(self, prompt, formatted=False, **kwargs):
        raise NotImplementedError


def with_reranker(reranker, **settings) -> GraphRAGRetriever:
    return GraphRAGRetriever.from_nodes(make_nodes(), Hashed(), reranker=reranker, **settings)


def scored(found) -> list[tuple[str, float]]:
    return [(one.node_id, one.score) for one in found]


class TestAPostprocessor:
    def test_gets_more_nodes_than_are_returned_as_they_were_inserted(self, retriever):
        seen = []

        class Reads(Overlap):
            def _postprocess_nodes(self, nodes, query_bundle=None):
                seen.extend(NodeWithScore(node=one.node.model_copy(), score=one.score) for one in nodes)
                return nodes

        found = with_reranker(Reads(), similarity_top_k=2).retrieve(QUESTION)
        assert ids(seen) == ids(retriever.retrieve(QUESTION))
        assert ids(found) == ids(seen)[:2]
        given = {node.node_id: node for node in make_nodes()}
        assert [one.node for one in seen] == [given[one.node_id] for one in seen]

    def test_over_a_real_cross_encoder(self, tmp_path, monkeypatch):
        tiny = pytest.importorskip("tiny_cross_encoder", reason="onnx is not installed")
        encoder = CrossEncoder(tiny.write_cross_encoder(tmp_path / "tiny", [*(one.text for one in CHAIN), QUESTION]))

        class Model:
            def __init__(self, name, **settings):
                pass

            def predict(self, pairs):
                return [encoder(question, [Chunk("", "", text)])[0] for question, text in pairs]

        monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(CrossEncoder=Model))
        retriever = with_reranker(SentenceTransformerRerank(top_n=4, model="tiny", device="cpu"))
        found = retriever.retrieve(QUESTION)
        assert found[0].node_id == "auth"
        expected = [encoder(QUESTION, [Chunk("", "", one.node.get_content(MetadataMode.EMBED))])[0] for one in found]
        assert [one.score for one in found] == pytest.approx(expected)
        assert len(found) == 4

    async def test_of_an_llm_chooses_and_orders(self, retriever):
        order = ids(retriever.retrieve(QUESTION))
        reranked = with_reranker(LLMRerank(llm=Chooses(), top_n=5))
        expected = [(order[2], 9.0), (order[0], 7.0), (order[1], 7.0)]
        assert scored(reranked.retrieve(QUESTION)) == expected
        assert scored(await reranked.aretrieve(QUESTION)) == expected

    def test_that_returns_fewer_drops_the_others(self):
        assert len(with_reranker(Overlap(top_n=2)).retrieve(QUESTION)) == 2
        assert len(with_reranker(SimilarityPostprocessor(similarity_cutoff=0.3)).retrieve(QUESTION)) == 3
        assert with_reranker(Overlap(top_n=0)).retrieve(QUESTION) == []

    def test_whose_order_is_not_that_of_its_scores_has_the_last_word(self, retriever):
        order = ids(retriever.retrieve(QUESTION))
        expected = LongContextReorder().postprocess_nodes(
            [NodeWithScore(node=TextNode(id_=name), score=1 / rank) for rank, name in enumerate(order, 1)]
        )
        found = with_reranker(LongContextReorder()).retrieve(QUESTION)
        assert ids(found) == ids(expected)
        assert [one.score for one in found] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5])

    def test_that_changes_the_text_is_refused_with_advice(self, retriever):
        replaces = MetadataReplacementPostProcessor(target_metadata_key="title")
        with pytest.raises(RerankerError, match=r"MetadataReplacementPostProcessor changed .*node_postprocessors=\["):
            with_reranker(replaces).retrieve(QUESTION)
        from llama_index.core.llms import MockLLM

        engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM(), node_postprocessors=[replaces])
        assert "Auth Service" in {
            one.node.get_content(MetadataMode.NONE) for one in engine.query(QUESTION).source_nodes
        }

        class Adds(Overlap):
            def _postprocess_nodes(self, nodes, query_bundle=None):
                return [*nodes, NodeWithScore(node=TextNode(text="new"))]

        with pytest.raises(RerankerError, match="Adds returned a passage that it was not given"):
            with_reranker(Adds()).retrieve(QUESTION)


class TestAsync:
    @pytest.mark.parametrize("in_process", [True, False])
    async def test_the_question_is_embedded_once(self, in_process):
        questions = []

        class Counts(HashEmbedder):
            def embed_query(self, text):
                questions.append(text)
                return super().embed_query(text)

        model = Counts() if in_process else Hashed()
        retriever = GraphRAGRetriever.from_nodes(make_nodes(), model, reranker=Service())
        assert await retriever.aretrieve(QUESTION)
        asked = questions if in_process else [text for way, text in model.asked if way.endswith("query")]
        assert asked == [QUESTION]
        assert (await retriever.asearch(QUESTION, method="keyword")).hits
        assert questions in ([], [QUESTION])
