"""What every token counter must fulfil."""

from __future__ import annotations

from graphrag_core.ports import TokenCounter


class TokenCounterSuite:
    """What a token counter must fulfil."""

    def make(self) -> TokenCounter:
        """Return the counter under test."""
        raise NotImplementedError

    def test_nothing_costs_nothing(self) -> None:
        """The empty text has no tokens."""
        assert self.make()("") == 0

    def test_longer_texts_cost_no_less(self) -> None:
        """A text costs at least what its beginning costs, and never nothing."""
        count = self.make()
        text = "The Auth Service delegates to the OAuth Provider. 認証サービス。"
        costs = [count(text[:size]) for size in range(1, len(text) + 1, 7)]
        assert all(cost > 0 for cost in costs)
        assert costs[-1] >= costs[0]

    def test_counts_the_same_again(self) -> None:
        """Deterministic."""
        count = self.make()
        assert count("one two three") == count("one two three")
