"""Serialization: bandits, networks and algorithms as plain data, and back.

`encode` and `decode` know the registries of the library, `decoder` reads plain data by type
annotations, `toml` reads and writes the text. `posse.import_strings`, one layer below, names
user-defined parts as 'module:Class'.
"""
