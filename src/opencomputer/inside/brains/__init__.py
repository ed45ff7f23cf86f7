"""The resident brain of a durable session: an HTTP server inside its machine that holds one model loop.

Run as `python -m brains <engine>`. One server for all engines; what an engine is, `engine.py` says. Like the
agent runner it needs the standard library of any Python from 3.10 on, and what its engine brings along.
"""
