"""Passages that are not text: navigation, tables of contents and indexes."""

from __future__ import annotations

from graphrag_core import Chunker, Document, SentenceExtractor

LINKS = "## Guides\n\n- [Install](install.md)\n- [Configure the broker](broker.md#conf)\n- [Upgrade](up.md)\n"


def passages(text, place="guide/page.md", title=""):
    return Chunker().split(Document(place, text, title))


# -- extraction


def mentions(text, place="guide/page.md", title=""):
    return [e.mentions for e in SentenceExtractor().extract(passages(text, place, title))]


def test_an_index_gives_no_names_and_no_facts_but_keeps_the_places_that_links_lead_to():
    (found,) = SentenceExtractor().extract(passages(f"# Concept Index\n\n{LINKS}", "manual/concepts.md"))
    assert not found.facts
    assert [mention.name for mention in found.mentions if mention.name[0] != "→"] == []
    assert ("→manual/concepts", True) in [(mention.name, mention.subject) for mention in found.mentions]


def test_a_title_stays_the_subject_of_the_other_passages_of_its_document():
    text = (
        f"# Keyring\n\n## Overview\n\n{'Keyring issues tokens to the Auth Service. ' * 20}\n\n## Pages\n\n{LINKS * 8}"
    )
    found = mentions(text)
    assert "Keyring" in {mention.name for mention in found[0]}
    assert [m.name for m in found[-1] if m.name[0] != "→"] == []
