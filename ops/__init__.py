"""What runs, renders and measures Milena. Nothing outside this package imports it."""
