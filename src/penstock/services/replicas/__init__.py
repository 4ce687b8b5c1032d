"""The replicas this broker holds.

replica_manager  finds them, and creates, changes and deletes them as the metadata says
replica          one replica of a partition: its log, its high watermark, its role, the requests that wait for it
"""
