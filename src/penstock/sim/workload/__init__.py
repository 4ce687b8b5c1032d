"""Clients that do what a plan says, and write down what they were told.

    records     messages as records and back; each carries its number in a header
    watching    a client that knows which topic ids its attempts went to
    writer, reader, admin    one actor each
    pipelining  a writer with several batches under way
    known_topics    which topics must be there
    last_reader  reads everything when all is over
    recording   a client that writes down what it commits for groups
    member, copier, transactor    one actor each of those that need a coordinator; transacting: their transactions
    last_look   whether every coordinator is of use when all is over
    promises    what the topics of a plan promise, with all that was asked to change

They use `penstock.client` on any loop: the simulated world's, or a real one.
"""
