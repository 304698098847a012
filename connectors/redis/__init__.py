"""Redis: one stream and one control hash per generation. Owns their layout, scripts and clients.

Nothing here lasts: the store has what must stay, the log has what was decided. The worker writes
with `StreamWriter`, the closer with `StreamCloser`, the edge reads with `StreamReader` and is told
of news through `PushConnection`.
"""
