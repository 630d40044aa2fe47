"""The baselines' compiled loops; each names the paper or the solver that it follows."""
