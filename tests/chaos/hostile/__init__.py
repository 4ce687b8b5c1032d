"""A broker that is attacked, and a well-behaved client beside it that must not notice.

attacks      what an attacker does, each in a process of its own that yields its CPU to everything else
bystander    the well-behaved client: small and large requests, on old and new connections; how long each took
run          one attack after the other, each beside a broker that is left alone; what must hold of both

All of it stays on loopback and is bounded in connections, bytes and time.
"""
