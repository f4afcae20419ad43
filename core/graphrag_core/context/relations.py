"""Names of relations seen from their object: ``depends_on`` becomes ``depended_on_by``."""

from collections.abc import Mapping

_PAIRS = """
    part_of has_part, is_a has_instance, member_of has_member, component_of has_component, parent_of child_of,
    subclass_of has_subclass, contains contained_in, includes included_in, located_in location_of,
    capital_of has_capital, born_in birthplace_of, precedes follows, based_on basis_of, derived_from source_of,

    depends_on depended_on_by, relies_on relied_on_by, requires required_by, needs needed_by, uses used_by,
    calls called_by, invokes invoked_by, imports imported_by, runs run_by, runs_on hosts, executes executed_by,
    triggers triggered_by, implements implemented_by, extends extended_by, inherits_from inherited_by,
    overrides overridden_by, replaces replaced_by, supersedes superseded_by, configures configured_by,
    deploys deployed_by, monitors monitored_by, tests tested_by, validates validated_by, serves served_by,
    provides provided_by, produces produced_by, consumes consumed_by, generates generated_by, creates created_by,
    builds built_by, makes made_by, writes written_by, reads read_by, stores stored_in, sends sent_by,
    delegates_to delegated_to_by, publishes published_by, handles handled_by, authenticates authenticated_by,

    causes caused_by, affects affected_by, influences influenced_by, enables enabled_by, blocks blocked_by,
    prevents prevented_by, supports supported_by, improves improved_by, solves solved_by, fixes fixed_by,
    outperforms outperformed_by,

    cites cited_by, references referenced_by, refers_to referred_to_by, mentions mentioned_by, quotes quoted_by,
    links_to linked_from, describes described_by, defines defined_by, documents documented_by,
    discusses discussed_by, explains explained_by, addresses addressed_by, introduces introduced_by,

    owns owned_by, manages managed_by, maintains maintained_by, operates operated_by, controls controlled_by,
    leads led_by, directs directed_by, supervises supervised_by, works_for employs, works_on worked_on_by,
    teaches taught_by, advises advised_by, hires hired_by, approves approved_by, knows known_by, sees seen_by,
    tells told_by, likes liked_by, prefers preferred_by, founded founded_by, invented invented_by,
    discovered discovered_by, developed developed_by, develops developed_by, authored authored_by,
    acquired acquired_by, acquires acquired_by, funds funded_by, sponsors sponsored_by, buys_from sells_to,
    subscribes_to has_subscriber
"""
_SYMMETRIC = """
    related_to similar_to same_as equivalent_to connected_to connected_with linked_with adjacent_to opposite_of
    differs_from conflicts_with contradicts overlaps_with compatible_with integrates_with interacts_with
    communicates_with collaborates_with works_with competes_with married_to spouse_of sibling_of friend_of
    colleague_of partner_of
"""
_INVERSES: dict[str, str] = {name: name for name in _SYMMETRIC.split()}
for _name, _inverse in (pair.split() for pair in _PAIRS.split(",") if pair.strip()):
    _INVERSES.setdefault(_name, _inverse)
    _INVERSES.setdefault(_inverse, _name)


def inverse(relation: str, more: Mapping[str, str] | None = None) -> str:
    """Return the name of a relation seen from its object.

    A relation that is in no table is returned with its direction: a word would be a guess.

    Parameters
    ----------
    relation
        The relation, written with underscores, hyphens or spaces, in lower or upper case.
    more
        Further pairs, each valid in both directions; they come before the table.

    Examples
    --------
    >>> inverse("depends_on"), inverse("cited_by"), inverse("part_of"), inverse("RUNS_ON"), inverse("works for")
    ('depended_on_by', 'cites', 'has_part', 'HOSTS', 'employs')
    >>> inverse("feeds"), inverse("feeds", {"feeds": "fed_by"}), inverse("fed_by", {"feeds": "fed_by"})
    ('<- feeds', 'fed_by', 'feeds')
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
