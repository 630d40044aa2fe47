"""A search engine over a run: the HTTP server and its search page (docs/serving.md)."""
