"""STAND-IN, to be overwritten by the text-rules helper."""
def dates_in(text, today): return ()
def date_match(spans, said): return 0.0
