"""Pure decisions: facts in, answers out. No I/O, no clock; time and chance are arguments."""
