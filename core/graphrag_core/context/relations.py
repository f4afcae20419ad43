"""Names of relations seen from their object: ``depends_on`` becomes ``depended_on_by``."""

_IRREGULAR = {
    "part_of": "has_part",
    "is_a": "has_instance",
    "instance_of": "has_instance",
    "type_of": "has_type",
    "member_of": "has_member",
    "owns": "owned_by",
    "leads": "led_by",
    "runs": "run_by",
    "writes": "written_by",
    "builds": "built_by",
    "makes": "made_by",
    "knows": "known_by",
    "sees": "seen_by",
    "sends": "sent_by",
    "teaches": "taught_by",
    "tells": "told_by",
    "located_in": "location_of",
    "works_for": "employs",
    "employs": "employed_by",
    "parent_of": "child_of",
}
_INVERSES = {
    **_IRREGULAR,
    **{inverted: name for name, inverted in _IRREGULAR.items() if inverted != "has_instance"},
}
_SYMMETRIC = {"related_to", "similar_to", "same_as", "connected_to", "married_to", "sibling_of", "spouse_of"}
_PREPOSITIONS = {"on", "to", "in", "for", "with", "from", "of", "at", "by", "upon", "into", "over"}


def inverse(relation: str) -> str:
    """Return the name of a relation seen from its object; ``"inverse of …"`` if no rule applies.

    >>> inverse("depends_on"), inverse("implements"), inverse("part_of"), inverse("managed_by")
    ('depended_on_by', 'implemented_by', 'has_part', 'manages')
    """
    key = relation.strip().lower().replace(" ", "_").replace("-", "_")
    if key in _SYMMETRIC:
        return relation
    if key in _INVERSES:
        return _INVERSES[key]
    words = key.split("_")
    if words[-1] == "by" and words[0].endswith("ed") and len(words) == 2:
        return _to_third_person(words[0])
    third_person = words[0].endswith("s") and len(words[0]) > 3 and not words[0].endswith(("ss", "us", "is"))
    if third_person and (len(words) == 1 or all(word in _PREPOSITIONS for word in words[1:])):
        return "_".join([_to_participle(words[0]), *words[1:], "by"])
    return f"inverse of {relation}"


def _to_participle(verb: str) -> str:
    """Convert "depends" to "depended", "uses" to "used", "relies" to "relied"."""
    if verb.endswith("ies"):
        return verb[:-3] + "ied"
    stem = verb[:-2] if verb.endswith(("sses", "shes", "ches", "xes")) else verb[:-1]
    return stem + ("d" if stem.endswith("e") else "ed")


def _to_third_person(participle: str) -> str:
    """Convert "managed" to "manages", "owned" to "owns"."""
    stem = participle[:-2]
    silent_e = stem.endswith(("ag", "at", "iz", "is", "c", "us", "v", "id", "ar", "in")) and not stem.endswith("own")
    return participle[:-1] + "s" if silent_e else stem + "s"
