"""The contract: one Avro record or enum a file, and the Python types made from them.

Owns the `.avsc` files, their resolution into whole schemas, and the generated types. Knows
nothing of topics, brokers or wire framing.
"""
