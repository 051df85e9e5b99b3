"""The page at `/`: its files, what it shows section by section, and the streams that feed it."""
