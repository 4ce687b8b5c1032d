"""What was promised, while things die: `make chaos` for minutes or hours, a part of the suite for seconds.

lossy_proxy      stands between clients and broker and drops responses to requests that the broker has done
exactly_once     the run: workers copy records in transactions, broker and workers are killed, answers are lost
idempotence      the run: producers that repeat themselves because answers are lost, idempotent or not
copiers/         the workers, one program for each client
hostile/         the run: a broker that is attacked, and a client beside it that must not notice
cluster/         the run: a cluster under load, its brokers and ZooKeeper killed, paused and cut off
reading          topics read from begin to end, committed records only

Every choice comes from one seed, though the processes' own timing does not: a seed makes a run alike, not the same.
"""
