"""The resources of the API, one family a file, each with its tuple `RESOURCES`."""
