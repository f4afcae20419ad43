"""A page as a browser's parser sees it, as far as the tests ask."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"meta", "link", "img", "br", "hr"}


@dataclass
class Element:
    name: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def all(self, name: str = "", cls: str = "") -> list[Element]:
        """Every element below this one with a name and a class, in order."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                if (not name or child.name == name) and (not cls or cls in child.classes):
                    found.append(child)
                found += child.all(name, cls)
        return found

    def one(self, name: str = "", cls: str = "") -> Element:
        (found,) = self.all(name, cls)
        return found

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()

    @property
    def hits(self) -> list[int]:
        return [int(rank) for rank in self.attributes["data-hits"].split()]

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


def parse(page: str) -> Element:
    """Return the root of a page whose every element is closed where it should be."""
    parser = _Parser()
    parser.feed(page)
    parser.close()
    assert parser.open == [parser.root]
    return parser.root


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag, attrs):
        element = Element(tag, {key: value or "" for key, value in attrs})
        assert len(attrs) == len(element.attributes), "no attribute is given twice"
        self.open[-1].children.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop().name == tag

    def handle_data(self, data):
        self.open[-1].children.append(data)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")
