"""Brokers, their controller and ZooKeeper are killed, paused and cut off under load: what was promised must hold.

faulty           the cluster, three brokers and three ZooKeeper servers, and what can be done to it
namespaces       networks of the processes' own, that can be cut; only root can have them
separated        the cluster in such networks
links            TCP between the processes, through a proxy that can be cut
linked           the cluster joined by such links, for everybody else
faults           what befalls it, one after the other, and how it recovers
recording        a history that several threads write to
producing        the load: idempotent, plain, transactional, and Java's producer
consuming        members of groups, an observer of what groups committed, and the last reader
java_member      a member of a group with Java's consumer
verdicts         what the simulation's checkers say of the history, and what they leave out
run              all of it: `python -m tests.chaos.cluster --seconds N --seed S`

Every choice comes from one seed, though the processes' own timing does not: a seed makes a run alike, not the same.
"""
