"""Metering: the tokens of every computed epoch, told once."""
