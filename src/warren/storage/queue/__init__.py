"""One queue's messages: in memory as far as wanted, on disk as far as needed."""
