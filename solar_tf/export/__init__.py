"""A trained run for other programs; one module for each target: docs/export.md, docs/engines.md."""
