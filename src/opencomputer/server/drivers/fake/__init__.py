"""Machines that are ordinary processes of the host: for everything above a driver, without root."""
