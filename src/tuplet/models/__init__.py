"""The estimators: DMT, DMAT, DMATi, SelfDMAT, their contract, and the registry of all methods by name."""
