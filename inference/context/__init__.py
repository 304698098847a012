"""From stored turns to what an engine computes on. Owns no storage and no tokenizer."""
