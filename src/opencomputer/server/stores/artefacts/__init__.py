"""Artefacts kept durably: archives of layers and memory images in a blob store, unpacked copies beside it.

See docs/adr/0009-content-addressed-archives.md for why it is made this way.
"""
