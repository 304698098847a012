"""The drill: faults on the real stack under load, and the proof that nothing was lost."""
