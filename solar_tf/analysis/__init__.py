"""What a run is like: geometry, tail, charts, the report page; the paper's theory by numbers."""
