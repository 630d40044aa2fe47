"""The run directory, the contract between the stages: paths, files, locks, checksums, formats."""
