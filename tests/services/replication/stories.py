"""Runs the stories of replication tests on a cluster in one process."""

from collections.abc import Awaitable, Callable

from penstock.world.real_loop import run
from tests.services.replication.cluster import Cluster, cluster_of

Story = Callable[[Cluster], Awaitable[None]]


def tell(story: Story, count: int = 2, **settings: object) -> None:
    """Run a story with so many brokers; settings with '_' for '.'."""

    async def main() -> None:
        async with cluster_of(count, **settings) as cluster:
            await story(cluster)

    run(main)
