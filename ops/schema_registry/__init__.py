"""The schema registry, held to the released schemas: foreign clients find the ids that we write.

Nothing of ours reads from a registry. It exists for those who tap the topics with other clients, so
its ids must be those of `schemas/released/ids.json`, which every record on the log carries.
"""
