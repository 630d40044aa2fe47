"""Stage 3 (§3.3): encode a query, keep the top m buckets, rank their labels; metrics (§5)."""
