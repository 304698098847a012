"""What every process needs to run: settings, logs, clocks, an operator port."""
