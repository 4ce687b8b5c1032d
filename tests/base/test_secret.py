import pickle

from penstock.base.secret import Secret


def test_a_secret_is_shown_only_by_reveal() -> None:
    secret = Secret("open sesame")
    assert secret.reveal() == "open sesame"
    for shown in (repr(secret), str(secret), f"{secret}", f"{[secret]}", "%s" % secret):  # noqa: UP031
        assert "sesame" not in shown


def test_a_secret_is_a_value() -> None:
    assert Secret("a") == Secret("a") == pickle.loads(pickle.dumps(Secret("a")))
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
    assert Secret("a") != "a"
    assert not Secret("")
