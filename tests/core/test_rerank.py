"""A function or a cross-encoder as the reranker."""

from __future__ import annotations

import copy
import importlib
import json
import sys

import numpy as np
import pytest

from graphrag_core import Chunk, CrossEncoder, Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import InputError, MissingDependency, RerankerError
from graphrag_core.query.external_rerank import Returned, scores_of_returned
from graphrag_core.strategies import Gate, Linear, ScoreReranker
from graphrag_core.testing import CHAIN, CHAIN_QUESTION, HashEmbedder

NOTES = [Document(f"note-{i:02}", f"Harbour note {i}: the crane {'moves slowly ' * i}today.") for i in range(60)]


@pytest.fixture
def chain():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(CHAIN)
        yield index


@pytest.fixture(scope="module")
def notes():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(NOTES)
        yield index


def ids(result) -> list[str]:
    return [hit.chunk.id for hit in result]


def by_id(question, chunks):
    """Score by the alphabet, the last id first."""
    return [sum(ord(letter) / 256**i for i, letter in enumerate(chunk.id)) for chunk in chunks]


class TestAFunction:
    def test_orders_the_passages_and_its_score_is_the_hits(self, chain):
        result = GraphRetriever(chain, reranker=by_id).retrieve(CHAIN_QUESTION, k=3)
        assert ids(result) == ["secret", "oauth", "lunch"]
        expected = by_id("", [hit.chunk for hit in result])
        assert [hit.score for hit in result] == pytest.approx(expected)

    def test_leaves_the_explanation_of_the_first_reranker(self, chain):
        before = GraphRetriever(chain).retrieve(CHAIN_QUESTION, k=5)
        after = GraphRetriever(chain, reranker=by_id).retrieve(CHAIN_QUESTION, k=5)
        assert {hit.chunk.id: (hit.channels, hit.path) for hit in after} == {
            hit.chunk.id: (hit.channels, hit.path) for hit in before
        }
        assert after.expansion_skipped == before.expansion_skipped
        assert set(after.facts) == set(before.facts)

    def test_sees_the_first_rerankers_order_and_more_than_are_returned(self, notes):
        seen = []

        def record(question, chunks):
            seen.append((question, [chunk.id for chunk in chunks]))
            return range(len(chunks), 0, -1)

        question = "Where does the crane of the harbour move?"
        expected = ids(GraphRetriever(notes).retrieve(question, k=40))
        for k, count in ((5, 20), (20, 20), (30, 30)):
            found = GraphRetriever(notes, reranker=record).retrieve(question, k=k)
            assert seen.pop() == (question, expected[:count])
            assert ids(found) == expected[:k]
        GraphRetriever(notes, reranker=ScoreReranker(record, passages=7)).retrieve(question, k=2)
        assert len(seen.pop()[1]) == 7
        GraphRetriever(notes, reranker=ScoreReranker(record, first=Linear(link=0))).retrieve(question, k=2)
        assert len(seen.pop()[1]) == 20

    def test_ranks_the_first_hits_the_same_whatever_their_number(self, notes):
        retriever = GraphRetriever(notes, reranker=lambda q, chunks: [len(chunk.text) % 7 for chunk in chunks])
        most = ids(retriever.retrieve("crane today", k=20))
        assert [ids(retriever.retrieve("crane today", k=k)) for k in (1, 5, 19)] == [most[:1], most[:5], most[:19]]

    def test_that_finds_all_equal_changes_nothing(self, notes):
        plain, equal = (GraphRetriever(notes, k=9, reranker=one) for one in (True, lambda q, c: [0.5] * len(c)))
        assert ids(equal.retrieve("crane today")) == ids(plain.retrieve("crane today"))

    def test_drops_what_it_scores_none_and_what_it_has_not_seen(self, notes):
        def two(question, chunks):
            return [1.0 if place in (3, 5) else None for place in range(len(chunks))]

        order = ids(GraphRetriever(notes).retrieve("crane today", k=20))
        assert ids(GraphRetriever(notes, reranker=two).retrieve("crane today", k=9)) == [order[3], order[5]]
        assert len(GraphRetriever(notes, reranker=lambda q, c: [None] * len(c)).retrieve("crane today")) == 0

    def test_scores_fall_with_the_rank_and_unseen_passages_follow(self, notes):
        reranker = ScoreReranker(lambda q, chunks: [-1e6 - len(chunk.text) for chunk in chunks], passages=1)
        with notes.engine.snapshot() as snapshot:
            from graphrag_core.query.query import Query

            keys = snapshot.search_keywords("chunks", "crane", 30)
            ranked, scores = reranker.rerank_plain(Query("crane", snapshot), keys)
        assert sorted(ranked.tolist()) == sorted(keys[0].tolist())
        assert (np.diff(scores) <= 0).all()

    def test_is_not_shown_copies(self):
        text = "Permission is granted to use, copy, change and share this text and all that belongs to it, as told. "
        with KnowledgeIndex(HashEmbedder()) as index:
            index.add(
                [*(Document(f"copy-{i}", text * 2) for i in range(4)), Document("other", "Who may share a song?")]
            )
            seen = []

            def one(question, chunks):
                seen.extend(chunk.id for chunk in chunks)
                return [1.0, *[None] * (len(chunks) - 1)]

            (hit,) = GraphRetriever(index, reranker=one).retrieve("permission to share this text")
            assert sorted(seen) == ["copy-0", "other"]
            assert hit.copies == ("copy-1", "copy-2", "copy-3")

    def test_scores_plain_search_where_the_graph_is_not_used(self, chain):
        for retriever, settings in (
            (GraphRetriever(chain, reranker=by_id), {"use_graph": False}),
            (GraphRetriever(chain, reranker=by_id, gate=Gate(min_confidence=1.0)), {}),
        ):
            result = retriever.retrieve("Where is lunch served?", k=2, **settings)
            assert ids(result) == ["secret", "oauth"]
            assert result.expansion_skipped
        twice = ScoreReranker(lambda q, c: [1.0] * len(c), first=ScoreReranker(by_id))
        assert ids(GraphRetriever(chain, reranker=twice).retrieve("lunch", k=2, use_graph=False)) == ["secret", "oauth"]
        by_words = GraphRetriever(chain, reranker=by_id, method="keyword").retrieve("Where is lunch served?")
        assert ids(by_words) == ["lunch"], "the other methods have their own order"

    def test_sees_nothing_outside_the_filter(self, chain):
        seen = set()

        def record(question, chunks):
            seen.update(chunk.metadata["tenant"] for chunk in chunks)
            return [0] * len(chunks)

        GraphRetriever(chain, reranker=record).retrieve("Umbrella", where={"tenant": "acme"})
        assert seen == {"acme"}

    def test_errors_are_raised_as_they_are(self, chain):
        def fails(question, chunks):
            raise ConnectionError("no route")

        with pytest.raises(ConnectionError, match="no route"):
            GraphRetriever(chain, reranker=fails).retrieve("lunch")

    @pytest.mark.parametrize("wrong", [[1.0], [float("nan")] * 5, [1e300] * 5, ["high"] * 5, [[1], [2], [3], [4], [5]]])
    def test_wrong_scores_are_refused(self, chain, wrong):
        def scorer(question, chunks):
            return wrong

        with pytest.raises(RerankerError, match="scorer returned"):
            GraphRetriever(chain, reranker=scorer).retrieve("lunch")

    def test_arrays_are_scores(self, chain):
        result = GraphRetriever(chain, reranker=lambda q, c: np.array(by_id(q, c), np.float32)).retrieve("lunch", k=1)
        assert ids(result) == ["secret"]

    def test_is_cached_if_it_can_be_hashed(self, chain):
        calls = []

        class Scores:
            __hash__ = None

            def __call__(self, question, chunks):
                calls.append(question)
                return [0] * len(chunks)

        class Hashed(Scores):
            __hash__ = object.__hash__

        scores, hashed = Scores(), Hashed()
        for reranker, expected in ((scores, 2), (hashed, 1)):
            calls.clear()
            retriever = GraphRetriever(chain, reranker=reranker)
            retriever.retrieve("lunch")
            retriever.retrieve("lunch")
            assert len(calls) == expected

    def test_settings_are_checked(self):
        for settings in ({"passages": 0}, {"passages": True}, {"first": Linear}, {"score": "model"}, {"score": dict}):
            with pytest.raises(InputError):
                ScoreReranker(**{"score": by_id, **settings})
        assert ScoreReranker(by_id) == ScoreReranker(by_id, 20, Linear())

    def test_an_empty_index_needs_no_scores(self, index):
        assert len(GraphRetriever(index, reranker=lambda q, c: 1 / 0).retrieve("anything")) == 0


def scores_of_order(order, own, count):
    texts = {str(place): "text" for place in range(count)}
    returned = [Returned(str(place), "text", score) for place, score in zip(order, own, strict=True)]
    return scores_of_returned(returned, texts, "reranker", "")


class TestAnOrder:
    def test_keeps_scores_that_fall(self):
        assert scores_of_order([1, 2, 0], [0.9, -0.5, -2.0], 4) == [-2.0, 0.9, -0.5, None]

    def test_wins_over_scores_that_do_not(self):
        assert scores_of_order([1, 2, 0], [0.1, 0.5, 0.2], 3) == [1 / 3, 1.0, 1 / 2]
        assert scores_of_order([1, 0], [0.5, None], 2) == [0.5, 1.0]
        assert scores_of_order([1, 0], [float("nan"), 0.1], 2) == [0.5, 1.0]

    def test_is_kept_among_equal_scores(self):
        scores = scores_of_order([2, 0, 1], [0.5, 0.5, 0.5], 3)
        assert sorted(range(3), key=lambda place: -scores[place]) == [2, 0, 1]
        assert scores == pytest.approx([0.5, 0.5, 0.5])

    def test_names_a_passage_once(self):
        assert scores_of_order([1, 1, 0], [0.9, 0.8, 0.7], 2) == [0.7, 0.9]


def chunk(text: str, title: str = "", headings: tuple[str, ...] = ()) -> Chunk:
    return Chunk("id", "id", text, title, headings=headings)


class TestCrossEncoderInOnnx:
    @pytest.fixture(autouse=True)
    def _write(self, tmp_path):
        tiny = pytest.importorskip("tiny_cross_encoder", reason="onnx is not installed")
        self.write = tiny.write_cross_encoder
        self.texts = ["red fox den", "blue whale", "Foxes: a red animal", *(one.text for one in CHAIN), CHAIN_QUESTION]
        self.folder = self.write(tmp_path / "tiny", self.texts)

    def test_scores_pairs(self):
        # Shared words, minus 0.01 for each token of the passage and its end.
        encoder = CrossEncoder(self.folder)
        passages = [chunk("blue whale"), chunk("red fox"), chunk("a red red fox den")]
        assert encoder("red fox", passages) == pytest.approx([-0.03, 2 - 0.03, 3 - 0.06], abs=1e-6)
        assert encoder("red fox", []) == []

    def test_reads_title_heading_and_text_without_markup(self):
        encoder = CrossEncoder(self.folder)
        (score,) = encoder("red fox den", [chunk("**fox** `den`", "red", ("whale",))])
        assert score == pytest.approx(3 - 0.06, abs=1e-6)  # red - whale / fox den, and the end

    def test_cuts_the_longer_of_question_and_passage(self, tmp_path):
        short = CrossEncoder(self.write(tmp_path / "short", self.texts, length=8))
        (score,) = short("red fox", [chunk("blue " * 50 + "red")])
        assert score == pytest.approx(-0.04, abs=1e-6)  # 8 tokens: 3 special, 2 of the question, 3 of the passage
        assert short("red " * 5_000, [chunk("red")])[0] > 0
        shorter, longer = (CrossEncoder(tmp_path / "short", max_tokens=n) for n in (7, 512))
        assert shorter("red fox", [chunk("blue blue red")]) == pytest.approx([-0.03], abs=1e-6)
        assert longer("red fox", [chunk("blue " * 50)]) == pytest.approx([-0.04], abs=1e-6), "the model's length counts"

    @pytest.mark.parametrize("batch_size", [1, 2, 64])
    def test_scores_do_not_depend_on_the_other_passages(self, batch_size):
        encoder = CrossEncoder(self.folder, batch_size=batch_size)
        passages = [chunk("red " * n + "fox den") for n in (1, 9, 3, 40, 2)]
        alone = [encoder("red fox", [one])[0] for one in passages]
        assert encoder("red fox", passages) == alone
        assert encoder("red fox", passages[::-1]) == alone[::-1]

    def test_of_a_classifier_is_read_by_its_second_logit(self, tmp_path):
        encoder = CrossEncoder(self.write(tmp_path / "two", self.texts, columns=2))
        assert encoder("red fox", [chunk("red fox")]) == pytest.approx([1.97], abs=1e-6)

    def test_is_the_reranker_of_a_retriever(self, chain):
        encoder = CrossEncoder(self.folder)
        result = GraphRetriever(chain, reranker=encoder).retrieve(CHAIN_QUESTION, k=3)
        expected = encoder(CHAIN_QUESTION, [hit.chunk for hit in result])
        assert [hit.score for hit in result] == pytest.approx(expected)
        assert expected == sorted(expected, reverse=True)
        assert ids(result)[0] == "auth"  # "the", "auth", "service"
        wrapped = ScoreReranker(encoder, passages=2)
        assert sorted(ids(GraphRetriever(chain, reranker=wrapped).retrieve(CHAIN_QUESTION, k=1))) == ["auth"]
        assert copy.deepcopy(wrapped) == wrapped
        assert "tiny" in repr(encoder)

    def test_other_models_and_folders_are_refused(self, tmp_path):
        with pytest.raises(InputError, match=r"has no model.onnx"):
            CrossEncoder(tmp_path)
        with pytest.raises(InputError, match="not a cross-encoder"):
            CrossEncoder(self.write(tmp_path / "tokens", self.texts, columns=0))
        with pytest.raises(InputError, match="batch_size"):
            CrossEncoder(self.folder, batch_size=0)

    def test_an_embedding_model_is_refused(self, shared):
        with pytest.raises(InputError, match="not a cross-encoder"):
            CrossEncoder(shared / "models" / "minilm")

    def test_a_length_that_is_not_stated_is_512(self, tmp_path):
        (self.folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 1e30}), "utf-8")
        assert CrossEncoder(self.folder).identity.endswith("-512")
        (self.folder / "tokenizer_config.json").unlink()
        assert CrossEncoder(self.folder).identity.endswith("-512")


class TestCrossEncoderOfFastembed:
    def test_scores_like_the_folder(self, tmp_path, chain):
        tiny = pytest.importorskip("tiny_cross_encoder", reason="onnx is not installed")
        rerank = pytest.importorskip("fastembed.rerank.cross_encoder")
        description = importlib.import_module("fastembed.common.model_description")
        folder = tiny.write_cross_encoder(tmp_path / "tiny", [*(one.text for one in CHAIN), CHAIN_QUESTION])
        name = f"tests/{tmp_path.name}"
        source = description.ModelSource(hf="tests/none")
        rerank.TextCrossEncoder.add_custom_model(model=name, sources=source, model_file="model.onnx")
        encoder = CrossEncoder.fastembed(name, specific_model_path=str(folder))
        own = CrossEncoder(folder)
        found = GraphRetriever(chain, reranker=encoder).retrieve(CHAIN_QUESTION)
        expected = GraphRetriever(chain, reranker=own).retrieve(CHAIN_QUESTION)
        assert [(hit.chunk.id, hit.score) for hit in found] == [(hit.chunk.id, hit.score) for hit in expected]
        passages = [chunk("red " * n) for n in (1, 600, 3)]
        assert encoder("Auth Service", passages) == own("Auth Service", passages)

    def test_a_model_that_is_not_there_is_not_downloaded(self, tmp_path):
        pytest.importorskip("fastembed")
        with pytest.raises(InputError, match="local_files_only=False"):
            CrossEncoder.fastembed("Xenova/ms-marco-MiniLM-L-6-v2", cache_dir=str(tmp_path))
        with pytest.raises(InputError, match="fastembed cannot load 'no/such model'"):
            CrossEncoder.fastembed("no/such model")

    def test_without_it_the_error_says_what_to_install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "fastembed.rerank.cross_encoder", None)
        with pytest.raises(MissingDependency, match=r"hybrid-graphrag\[fastembed\]"):
            CrossEncoder.fastembed("Xenova/ms-marco-MiniLM-L-6-v2")


def test_a_change_while_passages_are_scored_ranks_them_again():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(CHAIN)
        calls = []

        def score(question, chunks):
            calls.append([chunk.id for chunk in chunks])
            if len(calls) == 1:
                index.add([Document("new", "The Auth Service relies on a new vendor.", "Auth Service vendor")])
            return range(len(chunks))

        result = GraphRetriever(index, reranker=ScoreReranker(score), cache=None).retrieve(CHAIN_QUESTION, k=10)
        assert len(calls) == 2
        assert "new" in {hit.chunk.id for hit in result.hits}
        assert [hit.chunk.id for hit in result.hits] == calls[1][::-1]
        assert result.generation == index.engine.generation


@pytest.mark.parametrize("returned", [None, 5, [10**400]])
def test_what_is_not_a_list_of_scores_is_an_error_of_the_reranker(returned):
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add([Document("a", "Ada Lovelace wrote.")])
        with pytest.raises(RerankerError, match="return"):
            GraphRetriever(index, reranker=lambda question, chunks: returned).retrieve("Ada Lovelace")
