"""Serialization: parts of the library as plain data (TOML, JSON) and back."""
