"""Kafka's protocol as bytes: frames, headers, and one typed shape per message.

    framing    cuts a stream into frames
    headers    what stands before a request's or a response's body
    messages/  one module per API, written by tools/generate_messages.py
    apis       the table of API keys, for those who need no message

Messages are turned into bytes and back by `penstock.schema.codec`. Nothing here knows what a request means, and
nothing here does I/O.
"""
