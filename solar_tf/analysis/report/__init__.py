"""A run, or a whole reproduction, as one self-contained page."""
