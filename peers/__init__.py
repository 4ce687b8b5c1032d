"""Programs that tests and benchmarks run beside or against Penstock, as real processes.

tools       where foreign programs are, and what to do when one is missing
brokers     either of the two brokers
home        where a process runs
kafka       Apache Kafka: a broker on one node, and its Java tools
penstock    the broker of this project, started the way a user starts it
process     the child process under both

None of it is shipped.
"""
