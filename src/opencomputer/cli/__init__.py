"""`oc`, the command line. It talks to servers through the SDK only."""
