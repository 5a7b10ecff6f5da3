"""Compiled loops over CSR arrays. Import them inside functions: numba takes a while to load."""
