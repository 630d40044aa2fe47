"""The paper's tables on a dataset at hand: solar reproduce --table 1."""
