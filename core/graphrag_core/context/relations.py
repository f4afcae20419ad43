"""Names of relations seen from their object: ``depends_on`` becomes ``depended_on_by``."""

from collections.abc import Mapping

_PAIRS = """
    part_of has_part, is_a has_instance, contains contained_in, includes included_in, located_in location_of,
    depends_on depended_on_by, requires required_by, uses used_by, calls called_by, runs_on hosts, runs run_by,
    implements implemented_by, extends extended_by, provides provided_by, produces produced_by, creates created_by,
    writes written_by, reads read_by, causes caused_by, affects affected_by, cites cited_by, references referenced_by,
    mentions mentioned_by, describes described_by, owns owned_by, manages managed_by, leads led_by, works_for employs,
    introduces introduced_by, defines defined_by, refers_to referred_to_by, supports supported_by,
    replaces replaced_by, delegates_to delegated_to_by, stores stored_in, maintains maintained_by,
    founded founded_by, developed developed_by, related_to related_to, similar_to similar_to
"""
_INVERSES: dict[str, str] = {}
for _name, _inverse in (pair.split() for pair in _PAIRS.split(",")):
    _INVERSES |= {_name: _inverse, _inverse: _name}


def inverse(relation: str, more: Mapping[str, str] | None = None) -> str:
    """Return the name of a relation seen from its object; one that is in no table with its direction.

    ``more`` are further pairs, each valid in both directions; they come before the table.

    >>> inverse("depends_on"), inverse("part_of"), inverse("RUNS_ON"), inverse("works for"), inverse("feeds")
    ('depended_on_by', 'has_part', 'HOSTS', 'employs', '<- feeds')
    """
    key = _key(relation)
    for name, other in (more or {}).items():
        if key in (_key(name), _key(other)):
            return other if key == _key(name) else name
    found = _INVERSES.get(key)
    if found is None:
        return f"<- {relation.strip()}"
    found = found.replace("_", " ") if " " in relation.strip() else found
    return found.upper() if relation.isupper() else found


def _key(relation: str) -> str:
    return relation.strip().lower().replace(" ", "_").replace("-", "_")
