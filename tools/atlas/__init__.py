"""The crash atlas: every durable step × (before, torn, after) × play, and what one recovery makes of it."""
