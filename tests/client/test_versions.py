import pytest

from penstock.client.errors import UnsupportedError
from penstock.client.versions import Versions
from penstock.wire.messages.metadata import MetadataRequest
from penstock.wire.messages.produce import ProduceRequest


def test_the_newest_version_that_both_know_is_picked() -> None:
    assert Versions({3: (0, 99)}).pick(MetadataRequest) == MetadataRequest.VERSIONS[1]
    assert Versions({3: (0, 5)}).pick(MetadataRequest) == 5


def test_a_ceiling_lowers_the_version() -> None:
    assert Versions({0: (0, 13)}).pick(ProduceRequest, at_most=12) == 12


def test_an_api_that_the_broker_lacks_is_an_error_that_names_it() -> None:
    versions = Versions({})
    assert not versions.offers(MetadataRequest)
    with pytest.raises(UnsupportedError, match="does not know Metadata"):
        versions.pick(MetadataRequest)


def test_no_version_in_common_is_an_error_that_names_both_sides() -> None:
    versions = Versions({0: (0, 2)})
    assert not versions.offers(ProduceRequest)
    with pytest.raises(UnsupportedError, match=r"Produce in versions 0-2, .* 3-13"):
        versions.pick(ProduceRequest)
