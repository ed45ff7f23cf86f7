"""Sandboxes of ours where agent frameworks expect theirs.

One module for each framework, which is the only place that imports it: `inspect_ai`, `langchain` and
`openai_agents`. Each needs the extra of its name.
"""
