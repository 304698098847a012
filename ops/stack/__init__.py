"""The local stack: the real parts on loopback, fetched by pinned version, started and watched."""
