"""Pipelines: flows from topics through a function of DataFrames to topics and tables, on one Spark session.

    project     what `pipeline.toml` says: settings, flows, targets; pure but for reading that file
    paths       where a project keeps what: checkpoints, tables, the lock
    transforms  from `module:function` to the function, and a project's modules to Spark's workers
    restarts    when a failed flow is started again; pure
    session     the Spark session of a project
    runner      one streaming query per flow: start, watch, start again, stop
    views       how a flow is doing, as the display and reports see it
    lag         how far flows are behind, asked of the broker
    display     the live table, or a line now and then; rendering is pure
    checkpoint  what Spark's checkpoint says about a flow, read without Spark
    reset       one flow back to the beginning
    template    what `penstock pipeline init` writes

Only `session`, `transforms` and `runner` need PySpark, and import it when they are used: `describe` and `reset` work
without.
"""
