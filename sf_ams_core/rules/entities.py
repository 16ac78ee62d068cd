"""STAND-IN, to be overwritten by the text-rules helper."""
from .text import fold
from anyascii import anyascii
def entities(text): return ()
def fold_identifier(text): return fold(text)
def romanise(text): return fold(anyascii(text))
def contains_identifier(text, identifier): return bool(fold(identifier)) and fold(identifier) in fold(text)
