"""What all webhooks have in common: where they may go, how they are signed, when they are tried again."""
