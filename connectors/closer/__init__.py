"""The closer: the one process beside the machines with hands on Redis and the store.

It applies what runs decided: opens streams, passes stops on, and ends each generation with the
stored row first and the only terminal after it. It decides nothing about a run and adds no text.
"""
