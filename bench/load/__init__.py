"""Load for either broker.

frames         requests as bytes, made once and sent many times; `commits` has those for committed offsets
raw            sends frames over many connections with several in flight each
throughput     librdkafka at full speed, in and out
paced          librdkafka at a steady rate, from end to end
steady         librdkafka's producer, a record for every partition at even distances
members        librdkafka's consumers as members of a group, and who has which partition
talks          conversations whose questions depend on the answers, thousands side by side in one thread
coordinators   finding who coordinates a group or a transactional id
transactional  transactions, as such conversations and by librdkafka
gathering      a thousand members of a group, as such conversations
pinging        how long a broker keeps a client waiting
writing        librdkafka's producer with acks=all, and how long each record waits
pushed         a replicated leader that is given so many bytes a second, and how far its followers are behind
flooding       as much as a cluster takes
capped         a cluster that clients reach through links of limited speed
"""
