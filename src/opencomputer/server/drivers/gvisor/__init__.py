"""Machines on gVisor: each has its own application kernel in an ordinary process of the host."""
