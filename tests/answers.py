"""Answers to draw, put together by hand."""

from __future__ import annotations

from graphrag_core import Chunk, Entity, Fact, Hit, Result
from graphrag_core.result import Channel, Explanation, Lazy, Link, Reason, Remarks, Step, Trace

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\" onload='x' <!-- ]]> \u2028 {{$policy}} &lt;b&gt;"
)


def explained_hit(chunk: Chunk, score: float, *, path=(), words=(), covers=(), link=None, **fields) -> Hit:
    """A hit with its explanation."""
    reason = Reason(path=path, words=words, covers=covers, link=link)
    return Hit(chunk, score, **fields, explanation=Lazy.of(Explanation(reasons={chunk.id: reason})))


def explained(
    question,
    method,
    hits=(),
    entities=(),
    confidence=None,
    facts=(),
    known=None,
    *others,
    uncovered=(),
    **fields,
) -> Result:
    """A result with its explanation and its remarks."""
    lazy = Lazy.of(Explanation(facts=facts, known=known or {}, uncovered=uncovered))
    said = Remarks(**{name: fields.pop(name) for name in Remarks.__dataclass_fields__ if name in fields})
    own = {"remarks": Lazy.of(said), "explanation": lazy}
    return Result(question, method, hits, entities, confidence, *others, **fields, **own)


def passage(name: str, text: str = "Words.", title: str | None = None) -> Chunk:
    return Chunk(name, name, text, name if title is None else title)


def hit(chunk: Chunk, *stations: str, rank: int = 1, facts: tuple[str, ...] = (), **changes) -> Hit:
    """A hit whose path runs over entities, with a fact between each two."""
    steps: list[Step] = []
    for at, name in enumerate(stations):
        if at:
            text = facts[at - 1] if at <= len(facts) else f"{stations[at - 1]} needs {name}."
            steps.append(Step("fact", f"f{at}", text))
        steps.append(Step("entity", name.lower(), name))
    path = (Step("question", "", "?"), *steps, Step("chunk", chunk.id, chunk.title)) if steps else ()
    channels = {"vector": Channel(rank, 0.5), "keyword": Channel(rank, 7.5), "graph": Channel(1, -1.5)}
    return explained_hit(chunk, 1 / rank, **{"channels": channels, "path": path} | changes)


def entity(name: str, **more) -> Entity:
    return Entity(name.lower(), name, **more)


PORTAL = explained(
    "Who runs what the Partner Portal signs in with?",
    "hybrid",
    (
        hit(passage("Partner Portal", "# Partner Portal\n\nThe Partner Portal signs in with Oauth."), "Partner Portal"),
        hit(passage("Oauth", "Oauth is a layer."), "Partner Portal", "Oauth", rank=2),
        hit(passage("Team", "The team runs Oauth."), "Partner Portal", "Oauth", rank=3, origin="graph"),
        hit(passage("Lunch", "Lunch is at noon."), rank=4, channels={"vector": Channel(2, 0.3)}),
    ),
    (entity("Partner Portal", type="service", mentions=2),),
    0.79,
    (
        Fact(("partner portal", "oauth"), "Partner Portal needs Oauth.", id="f1"),
        Fact(("oauth", "keyring"), "Oauth buys from Keyring.", "buys from"),
        Fact(("keyring", "tallinn"), "Keyring sits in Tallinn."),
        Fact(("mars", "venus"), "Mars is far from Venus."),
    ),
    {name.lower(): entity(name) for name in ("Partner Portal", "Oauth", "Keyring", "Tallinn", "Mars", "Venus")},
    route="the question names what a passage is about",
    decided="the graph led: the question names Partner Portal",
    trace=Trace({"embed": 0.5, "search": 1.25}),
)

LINKED = explained(
    "Who maintains the vendor of Oauth in winter?",
    "hybrid",
    (
        hit(passage("Oauth", "Oauth has one vendor, Keyring."), "Oauth", words=("vendor", "Oauth"),
            covers=("vendor", "Oauth")),
        hit(passage("Keyring", "Keyring maintains sign-in."), "Oauth", "Keyring", rank=2, words=("maintains",),
            covers=("maintains",), link=Link(1, "Oauth", "keyring", "Keyring", "about")),
        hit(passage("Contract", "The contract with Keyring ends in Tallinn."), rank=3, words=("Oauth",),
            link=Link(2, "Keyring", "tallinn", "Tallinn", "both_mention"), channels={"keyword": Channel(3, 2.0)}),
        hit(passage("Notice", "Ninety days for Tallinn."), rank=4, origin="graph",
            link=Link(1, "Oauth", "notice", "Notice of the whole contract", "about"),
            channels={"graph": Channel(1, 1.0)}),
    ),
    (entity("Oauth"),),
    0.8,
    (Fact(("oauth", "keyring"), "Oauth needs Keyring.", id="f1"),),
    {name.lower(): entity(name) for name in ("Oauth", "Keyring", "Tallinn", "Notice")},
    decided="the graph led: the question names Oauth",
    trust="trust 1.00: 62% of the question consists of rare names that the graph knows",
    uncovered=("winter",),
)  # fmt: skip

NOTHING = explained("Why?", "vector", decided="no passage was found")

PLAIN = explained(
    "What is for lunch?",
    "keyword",
    tuple(hit(passage(f"Menu {n}"), rank=n, channels={"keyword": Channel(n, 9.0 - n)}) for n in (1, 2)),
    decided="keyword search alone: the graph was not used",
    expansion_skipped="the graph was not used",
    fallback="no embedder was given: keywords carry the question",
)

CROWD = explained(
    "Which of the many things that Acme has told everyone about does the newcomer have to read first, and why? " * 4,
    "hybrid",
    tuple(
        hit(
            passage(f"doc-{n}", "Long. " * 600, f"Title {n} " + "that goes on and on " * 15),
            *(("Acme", f"Thing number {n % 7}")[: 1 + n % 2]),
            rank=n,
        )
        for n in range(1, 21)
    ),
    (entity("Acme"), entity("Everyone")),
    0.9,
    tuple(Fact((f"thing number {n % 7}", f"neighbour {n}"), f"Fact {n} says so.") for n in range(200)),
    {f"neighbour {n}": entity(f"Neighbour {n}", description="Stands around. " * 30) for n in range(200)},
)

TONGUES = explained(
    "北京的认证服务依赖什么? מי מפעיל את שירות הכניסה 🚢?",
    "hybrid",
    (
        hit(
            passage("zh", "认证服务依赖密钥环公司。", "认证服务的登录流程与密钥环公司之间的关系说明文件第一版"),
            "认证服务",
            rank=1,
        ),
        hit(
            passage("he", "שירות הכניסה פועל בתל אביב.", "שירות הכניסה של החברה בתל אביב"),
            "认证服务",
            "שירות הכניסה",
            rank=2,
        ),
        hit(passage("ar", "خدمة تسجيل الدخول", "خدمة تسجيل الدخول في الشركة"), "认证服务", "خدمة الدخول", rank=3),
        hit(
            passage("emoji", "🚢🚢", "👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀👩🏽‍🚀 🚢"),
            "认证服务",
            "🚢 Schiff",
            rank=4,
        ),
        hit(
            passage("long", "w", "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"),
            rank=5,
        ),
    ),
    (entity("认证服务"),),
    0.8,
)

EVIL = explained(
    HOSTILE,
    HOSTILE,
    (
        hit(passage(HOSTILE, HOSTILE), HOSTILE, HOSTILE + "2", facts=(HOSTILE,), graph_expansion=HOSTILE),
        hit(passage("x", "\x00\ud800\x1b[31m", "\u202egnp.exe"), rank=2, channels={HOSTILE: Channel(1, 1.0)},
            words=(HOSTILE, "x"), covers=(HOSTILE,), link=Link(1, HOSTILE, "y", HOSTILE, "about")),
    ),
    (Entity(HOSTILE.lower(), HOSTILE, HOSTILE, HOSTILE, (HOSTILE,), 3),),
    0.5,
    (Fact((HOSTILE.lower(), "other"), HOSTILE, HOSTILE, value=HOSTILE),),
    {"other": Entity("other", HOSTILE, HOSTILE, HOSTILE)},
    HOSTILE,
    Trace({HOSTILE: 1.0}),
    decided=HOSTILE,
    trust=HOSTILE,
    expansion_skipped=HOSTILE,
    fallback=HOSTILE,
    advice=HOSTILE,
    uncovered=(HOSTILE,),
)  # fmt: skip

TWO_PARTS = explained(
    "Where?",
    "vector",
    (
        Hit(Chunk("guide#0", "guide", "One.", "Guide"), 1.0),
        Hit(Chunk("guide#1", "guide", "Two.", "Guide", 1), 0.5),
        Hit(Chunk("untitled", "untitled", "Three."), 0.3),
    ),
)

ALL = {
    "portal": PORTAL,
    "linked": LINKED,
    "nothing": NOTHING,
    "plain": PLAIN,
    "crowd": CROWD,
    "tongues": TONGUES,
    "evil": EVIL,
    "two parts": TWO_PARTS,
}
