"""Penstock: a message queue that speaks Kafka's protocol."""

import os

if os.environ.get("PENSTOCK_INTERPRETED", "0") not in ("", "0"):
    from penstock.base.source_first import prefer_source

    prefer_source()
