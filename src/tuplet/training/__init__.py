"""From rows to an encoder: the one loop (`loop.py`), its settings, state, batches, views. No graph is known here."""
