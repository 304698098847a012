"""The proof that nothing was lost: the log folded again and held up to what the machines recorded."""
