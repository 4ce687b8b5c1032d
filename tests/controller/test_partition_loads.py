"""How the controller learns what partitions make their leaders do."""

from penstock.base.ids import TopicPartition
from penstock.controller.partition_loads import PartitionLoads, Rates
from penstock.world.real_loop import run
from tests.raw_client import batch_of, fetch_request
from tests.services.replication.cluster import TOPIC, cluster_of, led_by

WHERE = TopicPartition(TOPIC, 0)


def test_what_a_leader_elsewhere_takes_and_sends_is_learned_from_it() -> None:
    async def main() -> None:
        async with cluster_of(2) as cluster:
            await cluster.controller.create(led_by(2), led_by(1))
            asking, leader = cluster[1], cluster[2]
            loads = PartitionLoads(asking.world, asking.image, asking.replicas, asking.peers, node_id=1)
            await loads.measure(0)
            assert loads.written.totals[WHERE] == 0
            await leader.produce(batch_of(bytes(10_000)))
            await leader.fetch(fetch_request(TOPIC, 0))
            await loads.measure(0)
            assert loads.written.totals[WHERE] > 10_000
            assert loads.sent.totals[WHERE] > 10_000
            assert loads.written.rates[WHERE] > 0
            assert loads.sent.rates[WHERE] > 0
            idle = TopicPartition(TOPIC, 1)
            assert loads.written.rates[idle] == loads.sent.rates[idle] == 0

    run(main)


def test_rates_converge_and_ignore_totals_that_shrink_or_come_from_a_new_leader() -> None:
    rates = Rates()
    for total in range(0, 50_000, 1_000):
        rates.measured({WHERE: total}, {WHERE: 1}, passed_s=10)
    assert 99 < rates.rates[WHERE] <= 100
    rates.measured({WHERE: 5}, {WHERE: 1}, passed_s=10)
    rates.measured({WHERE: 1_000_000}, {WHERE: 2}, passed_s=10)
    assert 99 < rates.rates[WHERE] <= 100
    rates.measured({}, {}, passed_s=10)
    assert not rates.rates
