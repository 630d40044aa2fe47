"""Operating a run: estimate what it takes, check its files, copy it."""
