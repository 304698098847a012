"""Workers: which incarnations live, and whose epochs are lost with one that does not."""
