"""Pictures of the pages for README and docs, made by `make screenshots`."""
