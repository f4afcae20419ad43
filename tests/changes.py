"""Random changes of an index: documents that are added, replaced and deleted."""

from __future__ import annotations

import random
import re

from hypothesis import strategies as st

from graphrag_core import Chunker, Combined, Document, Extraction, KnowledgeIndex, Mention, SentenceExtractor

# Names that come capitalised, in lower case, at the start of a sentence, as aliases (one of
# them ambiguous), twice in one text; sentences long enough that documents are cut.
SENTENCES = [
    "The Auth Service issues tokens to Ada Lovelace.",
    "Ask the auth service, or Redis, about tokens.",
    "Redis keeps every session of ada lovelace.",
    "International Business Machines (IBM) met Ada Lovelace.",
    "IBM sold the red fox.",
    "American Medical Association (AMA) wrote to IBM in 1911.",
    "The American Marketing Association (AMA) wrote back.",
    "AMA runs it.",
    "`kg_store` replaced v1.2.3 of the Auth Service.",
    "a red fox jumped over the auth service.",
    "東京大学で「源氏物語」を読む。",
    "Same words, same words.",
]
MORE = [
    *SENTENCES[:-1],
    "开放授权提供商与钥匙环公司通信。他们在开放授权提供商工作。",
    "We like Session objects.",
    "You open a new session object here.",
    "The old session object is closed. A big session pool helps.",
    "They left Uppsala with Mara.",
    "SELECT runs.",
    "We select rows with a quick select query.",
    "The Red Fox met the American Medical Association.",
]
TITLES = ["Auth Service", "Redis", "Devotion (1929 film)", "Session", "Engine", "Pools", "Mara", "开放授权提供商"]
HEADINGS = ["Parameters", "Usage", "Red Fox", "See also"]
texts = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=6).map(" ".join)
documents = st.builds(
    Document,
    id=st.sampled_from(["a", "b", "c", "d"]),
    text=texts,
    title=st.sampled_from(["", "", "Auth Service", "Redis", "Devotion (1929 film)"]),
    metadata=st.sampled_from([{}, {"team": "x"}, {"team": "y", "n": 1}]),
)
additions = st.lists(documents, min_size=1, max_size=4, unique_by=lambda d: d.id)
deletions = st.lists(st.sampled_from(["a", "b", "c", "d", "nobody"]), min_size=1, max_size=3, unique=True)
operations = st.lists(st.one_of(additions, deletions), min_size=1, max_size=7)
CHUNKER = Chunker(max_tokens=20, overlap=10, whole_until=30)


class StatedAliases:
    """States that a short form in brackets is the long name before it."""

    identity = "aliases in brackets"
    _introduced = re.compile(r"((?!The )[A-Z]\w+(?: [A-Z]\w+)+) \(([A-Z]{2,})\)")

    def extract(self, chunks):
        pairs = (self._introduced.findall(chunk.text) for chunk in chunks)
        return [Extraction(tuple(Mention(long, aliases=(short,)) for long, short in own)) for own in pairs]


EXTRACTOR = Combined(SentenceExtractor(), StatedAliases())
SETTINGS = {"chunker": CHUNKER, "extractor": EXTRACTOR}


def perform(index: KnowledgeIndex, operation: list[object], present: dict[str, Document]) -> None:
    if isinstance(operation[0], Document):
        index.add(operation)
        present.update({document.id: document for document in operation})
    else:
        index.delete(operation)
        for document_id in operation:
            present.pop(document_id, None)


def some_document(chance: random.Random) -> Document:
    """Return one of 15 documents with a random text, in which a section may link to another one."""
    text = " ".join(chance.choices(MORE, k=chance.randint(1, 5)))
    if chance.random() < 0.4:
        more = " ".join(chance.choices(MORE, k=2))
        section = f"## {chance.choice(HEADINGS)}\n\n{more} See [x](d{chance.randint(0, 9)}.md)."
        text = f"# {chance.choice(TITLES)}\n\n{text}\n\n{section}"
    return Document(f"d{chance.randint(0, 14)}", text, chance.choice(["", "", *TITLES]), {"team": chance.choice("xy")})
