"""What every graph store must fulfil."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from graphrag_core.ports import GraphStore
from graphrag_core.stores.graph import GraphPart


class GraphStoreSuite:
    """What a graph store must fulfil.

    The graph of the tests: chunk 0 is about entity 100 (names 0 and 1) and mentions 200
    (name 2); chunk 1 mentions 200 and 300 (name 3). Each chunk has one fact of all it mentions.
    """

    def make(self) -> GraphStore:
        """Return a new, empty store."""
        raise NotImplementedError

    def _filled(self) -> GraphStore:
        store = self.make()
        store.add(_part())
        return store

    def test_an_empty_graph_has_a_view(self) -> None:
        """Nothing in it, and no error."""
        view = self.make().view
        assert len(view.entity_ids) == len(view.chunk_keys) == len(view.fact_keys) == 0

    def test_names_of_one_entity_are_one(self) -> None:
        """Three entities from four names."""
        view = self._filled().view
        assert view.entity_ids.tolist() == [100, 200, 300]
        assert view.name_entity.tolist() == [0, 0, 1, 2]

    def test_knows_mentions_and_subjects(self) -> None:
        """Chunk by entity."""
        view = self._filled().view
        assert view.mentions.toarray().tolist() == [[1, 1, 0], [0, 1, 1]]
        assert view.subjects.toarray().tolist() == [[1, 0, 0], [0, 0, 0]]

    def test_edges_weigh_the_sum_of_their_facts(self) -> None:
        """0.3 from the one fact of weight 3, 0.8 from the other of weight 8, nothing to itself."""
        links = self._filled().view.links.toarray()
        assert np.allclose(links, [[0, 0.3, 0], [0.3, 0, 0.8], [0, 0.8, 0]])

    def test_a_lower_case_name_is_a_mention(self) -> None:
        """Fact 1 has the gram of name 0, so chunk 1 mentions entity 100 too."""
        store = self.make()
        store.add(_part(fact_gram=(np.array([1]), np.array([7])), name_gram=(np.array([0, 1]), np.array([7, 7]))))
        assert store.view.mentions.toarray().tolist() == [[1, 1, 0], [1, 1, 1]]
        assert np.allclose(store.view.links.toarray()[0], [0, 1.1, 0.8])

    def test_an_alias_is_the_same_entity_while_its_chunk_lives(self) -> None:
        """300 short for 200, said by chunk 1."""
        store = self.make()
        store.add(_part(alias=(np.array([1]), np.array([3]), np.array([2]))))
        assert store.view.entity_ids.tolist() == [100, 200]
        store.remove(np.array([1]), np.empty(0, np.int64))
        assert store.view.entity_ids.tolist() == [100, 200, 300]

    def test_an_ambiguous_short_name_stays_itself(self) -> None:
        """300 short for both 100 and 200 is neither."""
        store = self.make()
        store.add(_part(alias=(np.array([0, 1]), np.array([3, 3]), np.array([0, 2]))))
        assert store.view.entity_ids.tolist() == [100, 200, 300]

    def test_removal_takes_out_what_addition_put_in(self) -> None:
        """Without chunk 1 and name 3 the graph is that of chunk 0 alone."""
        store = self._filled()
        store.remove(np.array([1]), np.array([3]))
        view = store.view
        assert view.entity_ids.tolist() == [100, 200]
        assert view.fact_keys.tolist() == [0]
        assert np.allclose(view.links.toarray(), [[0, 0.3], [0.3, 0]])

    def test_a_restricted_view_knows_nothing_else(self) -> None:
        """Of chunk 1 alone: no entity 100, no alias that chunk 0 gave, no fact of chunk 0."""
        store = self.make()
        store.add(_part(alias=(np.array([0]), np.array([3]), np.array([2]))))
        view = store.restricted(np.array([1]))
        assert view.chunk_keys.tolist() == [1]
        assert view.entity_ids.tolist() == [200, 300]
        assert view.fact_keys.tolist() == [1]
        assert np.allclose(view.links.toarray(), [[0, 0.8], [0.8, 0]])

    def test_comes_back_from_disk(self) -> None:
        """The same view after saving and loading, and it can go on changing."""
        store = self._filled()
        with tempfile.TemporaryDirectory() as name:
            store.save(Path(name))
            again = self.make()
            again.load(Path(name))
        for part, array in store.view.arrays().items():
            assert np.array_equal(again.view.arrays()[part], array), part
        again.remove(np.array([0]), np.array([0, 1]))
        assert again.view.entity_ids.tolist() == [200, 300]


def _part(**changed: object) -> GraphPart:
    empty = np.empty(0, np.int64)
    whole: dict[str, object] = {
        "chunks": np.array([0, 1]),
        "names": np.array([0, 1, 2, 3]),
        "name_entity": np.array([100, 100, 200, 300]),
        "name_gram": (empty, empty),
        "mention": (np.array([0, 0, 0, 1, 1]), np.array([0, 1, 2, 2, 3]), np.array([True, False, False, False, False])),
        "facts": np.array([0, 1]),
        "fact_chunk": np.array([0, 1]),
        "fact_weight": np.array([3, 8], np.float32),
        "fact_name": (np.array([0, 0, 1, 1]), np.array([0, 2, 2, 3])),
        "fact_gram": (empty, empty),
        "alias": (empty, empty, empty),
    }
    return GraphPart(**{**whole, **changed})  # type: ignore[arg-type]
