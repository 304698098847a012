"""Workers: they take requests off the log, compute them on an engine and publish the text.

Owns engines, context, scheduling and the stream writer; never imports the machines or the edge.
"""
