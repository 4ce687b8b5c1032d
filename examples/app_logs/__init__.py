"""Application logs, read by monitoring, BI and tracing at once, each at its own pace. README.md says how to run it.

    logs            what services write: the fields of an event, the services and who calls whom
    generator       makes such logs, the same ones for the same seed, and sends them
    parsing         from records to events, and why a record is none; every flow begins with it

    monitoring      error rate and latency per service over sliding windows, as alerts
    bi              requests, errors and latencies per endpoint and minute
    tracing         spans stitched into traces, and the call graph that they draw
    dead_letters    what is late or malformed, with the reason

    accounting      recounts topics and tables: produced = analysed + dead-lettered
    declarative     the same transformations as tables that `spark-pipelines run` keeps fresh
    specification   writes the file that `spark-pipelines run` looks for

A transformation is a function from DataFrame to DataFrame: it takes what `format("penstock")` reads and returns what is
to be written. `pipeline.toml` says which of them run, and where their results go.
"""
