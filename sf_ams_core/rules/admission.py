"""STAND-IN, to be overwritten by the text-rules helper."""
from dataclasses import dataclass
from ..types import RefusalReason
@dataclass(frozen=True)
class Assessment:
    type: str; importance: float; reason: object = None
def assess(text, settings, *, type=None, source="user"):
    if text.strip().endswith(("?","？")): return Assessment(type or "dialogue", .3, RefusalReason.QUESTION)
    return Assessment(type or "fact", .8, None)
def hard_refusal(text, *, max_chars):
    if not text.strip(): return RefusalReason.BLANK
    if len(text)>max_chars: return RefusalReason.TOO_LONG
    return None
def turn_importance(text, *, role, settings): return 0.0 if role!="user" else .5
