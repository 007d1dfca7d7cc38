"""The fault table: every scenario of the simulated phone played through the main job, and what came of it."""
