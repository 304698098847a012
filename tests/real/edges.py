"""Settings of the edges under test: nothing has to be waited for, and no busy machine turns a test red."""

PATIENT = {
    "MILENA_EDGE_PAYLOAD_MS_MAX": "3000",
    "MILENA_EDGE_DECISION_MS_MAX": "4000",
    "MILENA_EDGE_ANSWER_MS_MAX": "4000",
}
"""For every edge: how long an answer takes is the benchmark's to judge."""
HASTY = {
    "MILENA_EDGE_KEEP_ALIVE_S": "0.5",
    "MILENA_EDGE_BODY_WAIT_S_MAX": "1",
    "MILENA_EDGE_QUEUE_WAIT_MS_MAX": "4000",
    "MILENA_EDGE_RUN_MS_MAX": "6000",
}
"""What an edge does about time is seen soon."""
NARROW = {
    "MILENA_EDGE_WRITE_S_MAX": "1",
    "MILENA_EDGE_SOCKET_SEND_BYTES": "16384",
    "MILENA_EDGE_STREAM_BUFFER_BYTES_MAX": "16384",
}
"""Little is kept for a reader, and not for long."""
