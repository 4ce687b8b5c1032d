"""The network between the code under test and the broker, and what can go wrong on it."""

from penstock.sim.network import Network


class SimulatedNetwork:
    """The way between two hosts, both directions alike."""

    def __init__(self, network: Network, *, client: str, broker: str) -> None:
        self._network = network
        self._hosts = (client, broker)

    def cut(self) -> None:
        """Drop all packets from now on; connections stay open."""
        self._network.cut(*self._hosts)

    def heal(self) -> None:
        """Things get through again, and what was held up with them."""
        self._network.heal(*self._hosts)

    def delay(self, low_s: float, high_s: float | None = None) -> None:
        """Everything takes so long each way, or something between the two."""
        self._network.delay(*self._hosts, low_s=low_s, high_s=low_s if high_s is None else high_s)

    def slow(self, bytes_per_s: float | None) -> None:
        """Each connection gets no more than this through; None for as much as one likes."""
        self._network.slow(*self._hosts, bytes_per_s=bytes_per_s)

    def drop_connections(self) -> int:
        """Reset every connection, visibly for both ends; returns how many there were."""
        return self._network.reset(*self._hosts)

    def restore(self) -> None:
        """As good as new. Connections that were dropped stay so."""
        self._network.restore()
