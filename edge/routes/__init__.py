"""Routes: from HTTP to the parts and back, one file per noun."""
