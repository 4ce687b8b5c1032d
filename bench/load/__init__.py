"""Load for either broker.

frames       produce requests as bytes, made once and sent many times
raw          sends frames over many connections with several in flight each
throughput   librdkafka at full speed, in and out
paced        librdkafka at a steady rate, from end to end
"""
