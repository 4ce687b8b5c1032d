"""Kafka's protocol as bytes: frames, headers, and one typed class per message.

    framing    splits a stream into frames
    headers    the headers of requests and responses
    messages/  one module per API, written by tools/generate_messages.py
    apis       the table of API keys, without importing messages

Messages are turned into bytes and back by `penstock.schema.codec`. Nothing here knows what a request means, and
nothing here does I/O.
"""
