"""A live experiment: its decisions, reward window, recorded history, audit and exchange."""
