"""Stage 1 (§3.1, §3.2): label buckets, inverted indexes, feature hashing, TFRecords."""
