"""`milena bench`: what Milena adds, per hop, as numbers from one run on one machine."""
