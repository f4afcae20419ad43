"""How much a fact is worth: who said it, how long ago it was of use, how often."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10

from graphrag_core.model import Fact

WEEK = 7 * 24 * 60 * 60.0

_SOURCES = (("user_edit", 2.0), ("file", 1.5), ("system", 1.2), ("conversation", 1.0))


@dataclass(frozen=True, kw_only=True)
class Relevance:
    """confidence · source · decay · usage · status.

    Parameters
    ----------
    sources
        The weight of each source; one that is not here weighs 1.
    grace, weekly
        For so many weeks after its last access a fact loses nothing; then every week
        leaves this share of it.
    usage
        How much each tenfold of accesses adds.
    confirmed
        The weight of a confirmed fact; a staged one weighs 1.
    """

    sources: tuple[tuple[str, float], ...] = _SOURCES
    grace: float = 1.0
    weekly: float = 0.95
    usage: float = 0.5
    confirmed: float = 1.2

    def score(self, fact: Fact, now: float) -> float:
        """Return what a fact is worth at a time, in seconds since the epoch.

        A fact that was never read counts from its creation.

        >>> three_weeks = Fact(("User",), "prefers dark mode", confidence=0.8, source="user_edit",
        ...                    last_accessed=0.0, access_count=9)
        >>> round(Relevance().score(three_weeks, 3 * WEEK), 4)
        2.5992
        """
        since = fact.last_accessed if fact.last_accessed is not None else fact.created
        weeks = 0.0 if since is None else (now - since) / WEEK
        decay = self.weekly ** (weeks - self.grace) if weeks > self.grace else 1.0
        usage = 1 + log10(fact.access_count + 1) * self.usage
        status = self.confirmed if fact.status == "confirmed" else 1.0
        return fact.confidence * dict(self.sources).get(fact.source, 1.0) * decay * usage * status
