"""What a change of the contract means (design 7 gate 5): two spec trees compared by meaning, in sentences."""
