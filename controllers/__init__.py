"""The controllers. Launch, termination, garbage collection and repair of one machine are decided in one plan."""
