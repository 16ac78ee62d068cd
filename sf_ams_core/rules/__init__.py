"""Judging without doing: every function here computes from values, the same for the same input."""
