from penstock.cluster.metadata import BrokerRegistration, MetadataImage
from penstock.controller.failure_detector.broker_view import BrokerView

LISTENER = "PLAINTEXT"


def image_of(*node_ids: int, fenced: tuple[int, ...] = ()) -> MetadataImage:
    image = MetadataImage("a-cluster")
    for node_id in node_ids:
        address = {LISTENER: ("localhost", 9000 + node_id)}
        image.apply_broker(BrokerRegistration(node_id, None, address, fenced=node_id in fenced))
    return image


def addressed(broker_view: BrokerView, image: MetadataImage, *, now: float) -> list[int]:
    return [address.node_id for address in broker_view.addresses(image, LISTENER, now=now)]


def test_the_address_of_a_fenced_broker_is_kept_for_a_while():
    broker_view = BrokerView()
    broker_view.brokers_changed(image_of(1, 2, 3), now=100)
    image = image_of(1, 2, 3, fenced=(2,))
    broker_view.brokers_changed(image, now=200)

    assert addressed(broker_view, image, now=201) == [1, 2, 3]
    assert addressed(broker_view, image, now=206) == [1, 3]


def test_the_address_of_a_broker_fenced_twice_is_kept_from_the_second_time_on():
    broker_view = BrokerView()
    there, away = image_of(1, 2), image_of(1, 2, fenced=(2,))
    for now, image in ((0, there), (10, away), (12, there), (20, away)):
        broker_view.brokers_changed(image, now=now)

    assert addressed(broker_view, away, now=24) == [1, 2]
    assert addressed(broker_view, away, now=26) == [1]


def test_the_address_of_a_broker_that_was_never_unfenced_is_left_out():
    image = image_of(1, 2, fenced=(2,))
    broker_view = BrokerView()
    broker_view.brokers_changed(image, now=0)

    assert addressed(broker_view, image, now=0) == [1]


def test_a_broker_seems_dead_until_it_answers_or_the_metadata_say_so_or_it_is_doubted_for_too_long():
    broker_view = BrokerView()
    broker_view.brokers_changed(image_of(1, 2), now=0)
    assert not broker_view.seems_dead(2, now=1)

    broker_view.doubt(2, now=1)
    broker_view.doubt(2, now=9)
    assert broker_view.seems_dead(2, now=15)
    assert not broker_view.seems_dead(2, now=17), "its session has outlived all doubt"

    broker_view.answers(2)
    broker_view.doubt(2, now=20)
    assert broker_view.seems_dead(2, now=20)
    broker_view.brokers_changed(image_of(1, 2, fenced=(2,)), now=21)
    assert not broker_view.seems_dead(2, now=21)
