"""The compiled loops of retrieval; `retrieval.reference` has the same in plain numpy."""
