"""Pipelines: flows from topics through a function of DataFrames to topics and tables, on one Spark session.

    project     reads and checks `pipeline.toml`: settings, flows, targets
    paths       the paths of a project's checkpoints, tables and lock
    transforms  imports a flow's function, and ships a project's modules to Spark's workers
    restarts    when a failed flow is restarted; pure
    session     the Spark session of a project
    runner      one streaming query per flow: start, watch, restart, stop
    views       a flow's state, for displays and reports
    lag         the lag of flows, from the broker's offsets
    display     the live table, or a line from time to time; rendering is pure
    checkpoint  a flow's offsets in Spark's checkpoint, read without Spark
    reset       resets a flow to the beginning
    template    the project that `penstock pipeline init` writes

Only `session`, `transforms` and `runner` need PySpark, and import it when they are used: `describe` and `reset` work
without.
"""
