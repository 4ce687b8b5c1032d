"""Programs that tests run as processes of their own: a process has one Spark session, and it may be another one."""
