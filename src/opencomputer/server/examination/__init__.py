"""What `oc doctor` looks at beyond the host itself: a node's data, what it left, its surroundings."""
