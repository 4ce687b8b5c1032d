"""Either broker, for tests and measurements that work on both."""

from typing import TypeAlias

from peers.kafka import ApacheKafka
from peers.penstock import PenstockProcess

Broker: TypeAlias = ApacheKafka | PenstockProcess
