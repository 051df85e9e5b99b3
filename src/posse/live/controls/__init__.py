"""Controls: operators pin and pause arms, by signed records that spread through the network."""
