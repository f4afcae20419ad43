"""Documents of many kinds, and questions that lead through them.

Titled and untitled, Chinese, Markdown with headings, links and code, copies, equal texts, aliases.
"""

from __future__ import annotations

from graphrag_core import Document
from graphrag_core.testing import CHAIN

_LICENCE = "Permission is granted to use, copy, change and share this text and all that belongs to it. " * 2
DOCUMENTS = (
    *CHAIN,
    Document("ada", "Ada Lovelace wrote notes on the Analytical Engine of Charles Babbage in 1843.", "Ada Lovelace"),
    Document("babbage", "Charles Babbage was born in London. His engine was never built.", "Charles Babbage"),
    Document("engine", "The Analytical Engine has a store and a mill. Luigi Menabrea described it in Turin."),
    Document("menabrea", "Luigi Menabrea was an engineer from Chambéry. He led Italy from 1867 to 1869."),
    Document("byron", "Lord Byron was the father of Ada Lovelace. He died at Missolonghi in 1824.", "Lord Byron"),
    Document("lower", "ask ada lovelace, or the auth service, about the analytical engine."),
    Document("beijing", "北京大学位于北京市海淀区。蔡元培曾任北京大学校长，鲁迅在那里任教。", "北京大学"),
    Document("luxun", "鲁迅出生于浙江绍兴，写了《阿Q正传》。他的弟弟周作人也在北京大学任教。"),
    Document("shaoxing", "绍兴是浙江省的城市，以黄酒和运河闻名。蔡元培也出生于绍兴。", "绍兴"),
    Document(
        "manual",
        "# Workers\n\nA worker waits before it takes a lost job again. See `visibility_timeout` and "
        "[Pools](pools.md).\n\n## Limits\n\nA worker takes ten jobs at a time, unless `prefetch_limit` is set.\n\n"
        "## Logging\n\nEach job writes a line into the log of its worker. Logs are kept for a week.",
        metadata={"team": "jobs"},
    ),
    Document(
        "settings.md",
        "# Settings\n\n## visibility_timeout\n\nThe number of seconds. One hour unless it is changed.\n\n"
        "## prefetch_limit\n\nThe number of jobs that a worker takes at a time. Ten by default.",
        metadata={"team": "jobs"},
    ),
    Document(
        "pools.md",
        "# Pools\n\nA pool of processes runs the jobs of a [worker](manual). It grows with the load.\n\n"
        "## Sizes\n\nA pool has as many processes as the machine has cores. See `visibility_timeout`.",
    ),
    *(Document(f"licence-{number}", _LICENCE, metadata={"team": "xy"[number % 2]}) for number in range(3)),
    Document("equal-1", "The Analytical Engine has a store and a mill."),
    Document("equal-2", "The Analytical Engine has a store and a mill."),
    Document("equal-3", "The Analytical Engine has a store and a mill.", "Analytical Engine"),
    Document("IBM", "International Business Machines (IBM) met Charles Babbage. IBM sold the red fox."),
    Document("AMA", "The American Medical Association (AMA) wrote to IBM in 1843."),
)
QUESTIONS = (
    "Where does the vendor behind the Auth Service sit?",
    "Where was the man born whose engine Ada Lovelace described?",
    "Who led the country of the engineer that wrote about the Analytical Engine?",
    "How many seconds does a worker wait before it takes a lost job again?",
    "what is the default of prefetch_limit, and how large is a pool?",
    "蔡元培和鲁迅出生在哪里？",
    "permission to share this text",
    "a store and a mill",
    "Who wrote to IBM in 1843?",
    "what is it?",
)
