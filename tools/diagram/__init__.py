"""Pictures of the contract, drawn from `generated/`: the item machine and the two matrices."""
