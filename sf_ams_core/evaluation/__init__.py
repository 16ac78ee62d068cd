"""Measuring the memory on conversations: data sets in, numbers with intervals out."""
