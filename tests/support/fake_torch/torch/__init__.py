"""Stands in for PyTorch 2.13 where there is none: process groups whose calls are recorded, and the server that tells them."""
