"""Warren's queues as DataFrames."""
