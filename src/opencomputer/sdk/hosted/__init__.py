"""The client of hosted agents (`/v1`): `HostedAgents`."""
