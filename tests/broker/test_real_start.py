"""Errors for missing dependencies when a broker is assembled on a real machine."""

import asyncio
import sys
from pathlib import Path

import pytest

from penstock.base.errors import UserError
from penstock.base.load_settings import load_broker_settings
from penstock.broker.real_start import start_broker


def test_a_cluster_broker_without_kazoo_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "kazoo", None)
    monkeypatch.delitem(sys.modules, "penstock.cluster.zookeeper", raising=False)
    settings = load_broker_settings(data_dir=str(tmp_path), zookeeper="127.0.0.1:1")
    with pytest.raises(UserError, match=r'needs kazoo.*pip install "penstock-mq\[cluster\]"'):
        asyncio.run(start_broker(settings))
