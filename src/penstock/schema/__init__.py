"""Declared shapes and their bytes: what messages on the wire and records of the internal topics have in common.

    words       the words in which shapes are declared
    codec       decode and encode: bytes to a shape and back, in one of its versions
    reading, writing    turn a declaration into Python source, one function per shape and version
    emitter, primitives what the two share, and what the written functions call

Nothing here knows what a message or a record means.
"""
