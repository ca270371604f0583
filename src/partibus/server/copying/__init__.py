"""Copies of a whole bus from one place to another, made while neither is served."""
