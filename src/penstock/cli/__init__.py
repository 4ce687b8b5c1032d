"""The command line: `penstock COMMAND` and `penstock NOUN VERB`.

    main        finds the command, imports it alone, and turns errors into one line and an exit code
    parsing     arguments that several commands have, and help that fits a screen
    session     a connected client, topics by name with the nearest one for a typo
    output, progress    tables and JSON; the status line of long work

One module per command, with `add_arguments(parser)` and `run(arguments) -> exit code`: `serve`, `topic`,
`produce`, `consume`, `log`. Commands talk to brokers through `penstock.client` alone, so they work with Apache Kafka
too.
"""
