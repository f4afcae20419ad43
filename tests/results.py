"""Results to draw, of real questions about the sample documents and about hostile ones."""

from __future__ import annotations

from graphrag_apps.demo import QUESTIONS, sample_documents
from graphrag_core import Document, Extraction, Fact, GraphRetriever, KnowledgeIndex, Mention
from graphrag_core.testing import HashEmbedder

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\" onload='x' <!-- ]]> \u2028 {{$policy}} &lt;b&gt;"
)
TITLES = (
    "认证服务的登录流程与密钥环公司之间的关系说明文件第一版",
    "שירות הכניסה של החברה בתל אביב",
    "👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀 🚢",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "A title that goes on and on " * 15,
)


class Named:
    """An extractor that finds the same names in every passage, joined by a fact."""

    identity = "named"

    def __init__(self, *names: str) -> None:
        self.names = names

    def extract(self, chunks):
        facts = (Fact(self.names[:2], f"{self.names[0]} needs {self.names[-1]}."),) if len(self.names) > 1 else ()
        return [Extraction(tuple(map(Mention, self.names)), facts) for _ in chunks]


def asked(question, documents, extractor=None, **settings):
    """The result of a question about a few documents."""
    index = KnowledgeIndex(HashEmbedder(), extractor=extractor) if extractor else KnowledgeIndex(HashEmbedder())
    with index:
        index.add(documents)
        result = GraphRetriever(index).retrieve(question, **settings)
        result.explain()  # reads what is read later from the index
        return result


def said_everywhere(text: str):
    """A result in which every text is the given one."""
    document = Document("id", f"{text} is here. {text}", text, {"x": text})
    return asked(f"Where is {text}?", [document, Document("id2", text, text)], Named(text, f"{text} other"))


def sample_results():
    """Results by name."""
    demo = sample_documents()
    crowd = [Document(f"d{at}", f"{title} names Acme. " * 40, title) for at, title in enumerate(TITLES * 4)]
    return {
        "linked": asked(QUESTIONS[0].text, demo),
        "paths": asked(QUESTIONS[1].text, demo),
        "plain": asked("Keyring", demo, method="keyword"),
        "nothing": asked("Why?", []),
        "crowd": asked("What does Acme name? " * 8, crowd, k=20),
        "evil": said_everywhere(HOSTILE),
    }
