"""Schemas and their codecs, shared by messages of the protocol and records of the internal topics.

    words       the functions and base classes to declare a schema with
    codec       decode and encode: bytes to an object and back, in one of its versions
    reading, writing    generate Python source from a declaration, one function per class and version
    emitter, primitives what the two share, and what the generated functions call

Nothing here knows what a message or a record means.
"""
