"""Measures a node: `python -m bench tti | exec | files | density | all`."""
