"""Which protocol a classic group uses: one that all members know, by majority among those."""

from collections.abc import Iterable, Sequence

from penstock.core.groups.classic_member import ClassicMember
from penstock.core.groups.requests import SupportedProtocol


def have_one_in_common(protocols: Iterable[SupportedProtocol], members: Sequence[ClassicMember]) -> bool:
    """Whether a member with these protocols can join the group."""
    return any(all(name in member.protocol_names for member in members) for name, _ in protocols)


def elect(members: Sequence[ClassicMember]) -> str:
    """Each member votes for the first of its protocols that all know; between equals, the first voted for wins."""
    known_to_all = {
        name for name, _ in members[0].protocols if all(name in member.protocol_names for member in members)
    }
    assert known_to_all, "a member without a protocol in common with the others cannot join"
    votes: dict[str, int] = {}
    for member in members:
        choice = next(name for name, _ in member.protocols if name in known_to_all)
        votes[choice] = votes.get(choice, 0) + 1
    return max(votes, key=lambda name: votes[name])
