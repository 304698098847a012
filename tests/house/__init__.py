"""House rules as tests: each says what it forbids and what to write instead."""
