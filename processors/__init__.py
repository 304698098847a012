"""The machines: pure folds over keyed topics, and the one shell that runs them under Faust.

Machines have no hands: no Redis, no store, no HTTP. They meet everything else in a topic.
"""
