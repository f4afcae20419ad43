"""The example on which seed 001 is worked out by hand, for the tests of the core and of the adapters."""

from __future__ import annotations

import math
import re

QUESTION = "What does the Auth Service need?"  # 32 characters
PASSAGES = {
    "auth": "Passage one of the first kind, cos 0.875.",
    "login": "Another about signing in, cos 0.125.",
    "store": "Where sessions are kept, cos 0.25.",
    "oauth": "Third parties log in here, cos 0.3125.",
    "redis": "Memory of the sessions, cos 0.0625.",
    "lunch": "Lunch is at noon, cos 0.75.",
}
RELATIONS = {  # passage: subject, relation, object, strength
    "auth": ("Auth Service", "depends_on", "OAuth Provider", 8),
    "login": ("Auth Service", "part_of", "Login Flow", 5),
    "store": ("Auth Service", "uses", "Session Store", 2),
}
SUBJECTS = {"oauth": "OAuth Provider", "redis": "Session Store", "lunch": "Lunch"}

# Confidence: 32 characters 0.3 · 0.32 = 0.096, an entity 0.3, the best hit 0.4 · 0.875 = 0.35.
CONFIDENCE = 0.096 + 0.3 + 0.35
# Vector hits from 0.7 on: auth 0.875 and lunch 0.75. OAuth Provider, strength 8: oauth has 0.8 · 0.746 = 0.5968, auth
# is a vector hit already. Login Flow, strength 5: login has 0.5 · 0.746 = 0.373. Session Store, strength 2: 0.2 < 0.3.
ANSWER = {"auth": 0.875, "lunch": 0.75, "oauth": 0.5968, "login": 0.373}
ROUNDING = 0.001  # stored vectors are rounded

_COSINE = re.compile(r"cos (0\.\d+)")


class Cosines:
    """Embeds each text so that its cosine with every question is the number in it: "cos 0.875"."""

    identity = "cosines"

    def embed_documents(self, texts):
        cosines = [float(found[1]) if (found := _COSINE.search(text)) else 0.0 for text in texts]
        return [[cosine, math.sqrt(1 - cosine**2)] for cosine in cosines]

    def embed_query(self, text):
        return [1.0, 0.0]
