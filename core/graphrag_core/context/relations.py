"""Names of relations seen from their object: ``depends_on`` becomes ``depended_on_by``."""

from collections.abc import Mapping

_PAIRS = """
    part_of has_part, is_a has_instance, member_of has_member, parent_of child_of, contains contained_in,
    includes included_in, located_in location_of, based_on basis_of, derived_from source_of, precedes follows,
    depends_on depended_on_by, relies_on relied_on_by, requires required_by, needs needed_by, uses used_by,
    calls called_by, imports imported_by, runs run_by, runs_on hosts, triggers triggered_by,
    implements implemented_by, extends extended_by, replaces replaced_by, configures configured_by,
    deploys deployed_by, monitors monitored_by, provides provided_by, produces produced_by, consumes consumed_by,
    creates created_by, builds built_by, makes made_by, writes written_by, reads read_by, stores stored_in,
    causes caused_by, affects affected_by, enables enabled_by, blocks blocked_by, supports supported_by,
    cites cited_by, references referenced_by, refers_to referred_to_by, mentions mentioned_by, links_to linked_from,
    describes described_by, defines defined_by, introduces introduced_by,
    owns owned_by, manages managed_by, maintains maintained_by, operates operated_by, leads led_by,
    works_for employs, works_on worked_on_by, knows known_by, prefers preferred_by, founded founded_by,
    invented invented_by, discovered discovered_by, developed developed_by, acquired acquired_by
"""
_SYMMETRIC = "related_to similar_to same_as connected_to conflicts_with integrates_with works_with married_to"
_INVERSES: dict[str, str] = {name: name for name in _SYMMETRIC.split()}
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
