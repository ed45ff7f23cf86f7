"""One Claude session inside a machine: commands as JSON lines in, events as JSON lines out.

Run as `python -m agent_runner` with an interpreter that has the Claude Agent SDK. Everything else comes from
the standard library of any Python from 3.10 on: the machine's distribution decides which one it is.
"""
