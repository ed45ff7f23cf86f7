"""Tests of the store of artefacts."""
