"""DescribeTransactions and ListTransactions, the latter in slices."""

from collections.abc import Callable, Generator, Mapping

from penstock.base.errors import ErrorCode
from penstock.core.coordinator_shard import Decision
from penstock.core.transactions.requests import Listed, ListFilter
from penstock.core.transactions.states import STATES_BY_LABEL
from penstock.core.transactions.transaction import TransactionMetadata

_IDS_PER_SLICE = 200


def describe(known: TransactionMetadata | None) -> Decision[TransactionMetadata]:
    if known is None:
        return Decision.refused(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return Decision(known)


def list_all(
    transactions: Mapping[str, TransactionMetadata], wanted: ListFilter, now_ms: int
) -> Generator[None, None, Decision[Listed]]:
    unknown_states = [label for label in wanted.states if label not in STATES_BY_LABEL]
    passes = _filter(wanted, now_ms)
    expression = wanted.expression
    found = []
    # Between slices ids may be added and removed: the list of ids is taken once, each is looked up when it is reached.
    for number, transactional_id in enumerate(list(transactions), start=1):
        known = transactions.get(transactional_id)
        is_wanted = known is not None and passes(known)
        if is_wanted and expression is not None:
            is_wanted = yield from expression.matching(transactional_id)
        if known is not None and is_wanted:
            found.append(known)
        if not number % _IDS_PER_SLICE:
            yield
    return Decision(Listed(found, unknown_states))


def _filter(wanted: ListFilter, now_ms: int) -> Callable[[TransactionMetadata], bool]:
    states = frozenset(STATES_BY_LABEL[label] for label in wanted.states if label in STATES_BY_LABEL)
    producer_ids = frozenset(wanted.producer_ids)

    def passes(known: TransactionMetadata) -> bool:
        if wanted.states and known.state not in states:
            return False
        if producer_ids and known.producer_id not in producer_ids:
            return False
        # What never began has run since 1970, as in Kafka: its start is -1.
        return wanted.longer_than_ms < 0 or now_ms - known.started_ms > wanted.longer_than_ms

    return passes
