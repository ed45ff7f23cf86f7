"""The client of durable agents and sessions (`/v3`): `OpenComputer`, `connect_session`, `verify_webhook`."""
