"""One item: its facts, its evidence, its effects, the driver, and what is done with items left over."""
