"""Replaces PyTorch 2.13 where it is missing. It has process groups whose calls are recorded, and the server that
reports them."""
