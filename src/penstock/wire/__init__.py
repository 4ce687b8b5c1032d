"""Kafka's protocol as bytes: frames, headers, and one typed shape per message.

    framing    cuts a stream into frames
    headers    what stands before a request's or a response's body
    codec      decode and encode: a body's bytes to a message and back
    messages/  one module per API, written by tools/generate_messages.py
    apis       the table of API keys, for those who need no message
    schema     the words in which messages are declared
    reading, writing    turn such a declaration into Python source, one function per message and version

Nothing here knows what a request means, and nothing here does I/O.
"""
