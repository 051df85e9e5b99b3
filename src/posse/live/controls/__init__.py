"""Controls: what operators pin and pause, as signed records of which the highest version wins."""
