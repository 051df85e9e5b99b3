"""Pictures of the pages for README and docs, taken by `make screenshots`."""
