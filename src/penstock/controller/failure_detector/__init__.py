"""Notices dead brokers before their ZooKeeper sessions end.

probe         an idle connection to every other broker; a refused one is reported
reports       witnesses in the metadata store; when two agree, the controller fences the broker
broker_view   which brokers Metadata responses name meanwhile
"""
