"""``index.graph.communities()``: groups of entities, computed on call within a scope."""

from __future__ import annotations

import pytest

from graphrag_core import Document, KnowledgeIndex

PLANETS = "Mercury Venus Mars Jupiter Saturn".split()
COMPOSERS = ["Johann Bach", "Clara Schumann", "Amadeus Mozart", "Fanny Hensel", "Joseph Haydn"]


def collection(names, subject, tenant):
    """Documents in which every name is mentioned with every other one."""
    return [
        Document(
            f"{tenant}-{at}",
            f"{name} belongs to the {subject}. "
            + " ".join(f"{name} is compared with {other} by the {subject}." for other in names if other != name),
            name,
            {"tenant": tenant},
        )
        for at, name in enumerate(names)
    ]


@pytest.fixture
def documents():
    return [*collection(PLANETS, "Solar Survey", "sky"), *collection(COMPOSERS, "Leipzig Society", "music")]


@pytest.fixture
def index(documents):
    with KnowledgeIndex() as index:
        index.add(documents)
        yield index


def test_two_groups_of_names_are_two_communities(index):
    sky = next(one for one in index.graph.communities() if "mars" in one.members)
    (music,) = (one for one in index.graph.communities() if one.id != sky.id)
    assert {"mars", "saturn", "jupiter"} <= set(sky.members)
    assert {"joseph haydn", "fanny hensel"} <= set(music.members)
    assert set(sky.names) & set(PLANETS)
    assert not set(sky.names) & set(COMPOSERS)
    assert sky.name == ", ".join(sky.names[:3])
    assert sky.entities == len(sky.members)
    assert sky.id in sky.members


def test_the_same_documents_have_the_same_communities(index, documents):
    with KnowledgeIndex() as other:
        other.add(documents)
        assert other.graph.communities() == index.graph.communities()


def test_a_scope_has_its_own_communities_and_no_name_of_another_one(index):
    (sky,) = index.graph.communities(where={"tenant": "sky"})
    assert "mars" in sky.members
    assert not any(name.casefold() in " ".join(sky.members) for name in [*COMPOSERS, "Leipzig"])


def test_an_empty_index_and_one_without_names_have_none():
    with KnowledgeIndex() as empty:
        assert empty.graph.communities() == []
        empty.add([Document("1", "nothing here has a name")])
        assert empty.graph.communities() == []


def test_a_deleted_document_leaves_the_communities(index):
    index.delete([f"music-{at}" for at in range(5)])
    assert [one.members for one in index.graph.communities()] == [
        one.members for one in index.graph.communities(where={"tenant": "sky"})
    ]


def test_a_community_is_named_by_things_and_not_by_headings_and_numbers():
    tools = ["QuerySet", "ModelAdmin", "ForeignKey", "AdminSite", "FormView"]
    chapters = [f"{tool} and the Project" for tool in tools]
    links = " ".join(f"[{title}](m{at}.md)" for at, title in enumerate(chapters))
    manual = [
        Document(
            f"m{at}.md",
            f"# {chapters[at]}\n\nThis document describes {tool}, as do {links}.\n\n"
            + " ".join(f"The {tool} of 2024 needs {other}." for other in tools if other != tool),
            chapters[at],
        )
        for at, tool in enumerate(tools)
    ]
    with KnowledgeIndex() as index:
        index.add(manual)
        (theme,) = index.graph.communities()
        assert not {*chapters, "2024"} & set(theme.names)
        assert set(theme.names) & set(tools)
