"""The methods by theme, each a plain function; `tensor/methods.py` says which Tensor has."""
