"""The edge: sockets, and nothing else. Any edge serves any generation.

Owns HTTP, its errors and the way from Redis to clients. Never decides an admission, never keeps
an answer, never writes what another part is to read later, except the payload of a new request.
"""
