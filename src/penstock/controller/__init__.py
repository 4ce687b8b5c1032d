"""The controller: the one broker of a cluster that changes its metadata.

rules/              pure: new_topics, placement, leader_election, isr, majority_partitions, reassignment,
                    admin_requests, balancing
runtime             controller, metadata_writer, controller_election, controller_fencing, broker_registry, balancer,
                    partition_loads, majority_elections
controller_link     how any broker asks the controller
failure_detector/   dead brokers, noticed before their ZooKeeper sessions end
"""
