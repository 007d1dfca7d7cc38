"""The package folder of one item and of one run: names, matching, and what is written for people."""
