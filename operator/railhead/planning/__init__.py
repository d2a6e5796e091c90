"""Pure decisions: `plan(observed) -> Plan`. No I/O, no clock, no memory between passes."""
