"""Every number in one place, with its source.

`seed 1` is the design document of SF-AMS, `seed 2` the industrial memory article it was merged with, `trial` a
measurement on public conversations (LoCoMo, RealTalk, MemDaily; see ARCHITECTURE.md).
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Preset = Literal["balanced", "seed"]
Policy = Literal["seed"]


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WriteSettings(_Group):
    """What gets in."""

    write_threshold: float = Field(0.6, ge=0, le=1)  # seed 2, 4.1
    gate_explicit: bool = False  # True: `remember` meets the threshold too, as in seed 2
    base_importance: float = 0.5  # seed 2, 4.1
    fact_bonus: float = 0.3  # seed 2, 4.1
    preference_bonus: float = 0.3  # seed 2, 4.1
    decision_bonus: float = 0.2  # seed 2, 4.1
    short_penalty: float = 0.3  # seed 2, 4.1
    short_chars: int = 4  # seed 2, 4.1
    duplicate_cosine: float = 0.92  # seed 2, 4.1: so close, two statements are compared whatever their words
    value_change_cosine: float = 0.55  # trial: from here on they are compared where they share a word; rules decide
    max_chars: int = Field(20_000, ge=1)
    chunk_chars: int = Field(500, ge=50)  # trial: best chunk of a long text
    searched_chars: int = Field(1_000_000, ge=1)  # of one turn; the transcript keeps it whole
    embedded_chunks: int = Field(200, ge=1)  # of one turn
    redact_phones: bool = False
    redact_emails: bool = False


class RecallSettings(_Group):
    """What comes out, and in which order."""

    preset: Preset = "balanced"
    recall_timeout: float = Field(1.0, gt=0)  # seconds, embedding included
    seed_similarity: float = 0.5  # seed 2, 4.2
    seed_recency: float = 0.3  # seed 2, 4.2
    seed_importance: float = 0.2  # seed 2, 4.2
    recency_tau_days: float = Field(7.0, gt=0)  # seed 2, 4.2
    lexical: float = 0.5  # trial
    vector: float = 0.5  # trial
    importance: float = 0.35  # trial
    date: float = 0.20  # trial
    speaker_named: float = 0.10  # trial
    not_assistant: float = 0.20  # trial
    bm25_k1: float = 0.9  # trial
    bm25_b: float = 0.4  # trial
    neighbour_share: float = Field(0.7, ge=0, le=1)  # trial: of the lexical score where turns answer each other
    neighbour_decay: float = Field(0.6, ge=0, le=1)  # trial
    neighbours_before: int = 5  # trial
    neighbours_after: int = 3  # trial
    after_weight: float = 0.5  # trial


class ContextSettings(_Group):
    """What a prompt gets."""

    recent_turns: int = Field(6, ge=1)  # messages
    recall_k: int = Field(5, ge=1)
    session_idle_minutes: float = Field(30.0, gt=0)
    summary_every: int = Field(20, ge=2)  # turns that left the recent window before they are summarised
    summary_chars: int = Field(600, ge=80)
    retry_buffer: int = Field(1_000, ge=0)  # turns kept in memory while the store is down


class ForgettingSettings(_Group):
    """What is let go."""

    policy: Policy = "seed"
    importance: float = 0.5  # seed 1, 4.2 (alpha)
    recency: float = 0.3  # seed 1, 4.2
    access: float = 0.2  # seed 1, 4.2
    age_penalty: float = 0.0  # seed 1, 2.2 names the term, 4.2 leaves it out
    recency_form: Literal["linear", "exponential"] = "linear"  # seed 1, 4.2; exponential: seed 2, 4.2
    recency_days: float = Field(30.0, gt=0)  # seed 1, 4.2
    recency_tau_days: float = Field(7.0, gt=0)  # seed 2, 4.2
    access_cap: int = Field(10, ge=1)  # seed 1, 4.2
    expired_score: float = -1.0  # seed 1, 4.2
    ratio: float = Field(0.1, ge=0, le=1)  # seed 1, 4.2: forget_ratio
    capacity: int = Field(5_000, ge=1)  # seed 1, 3.2: records of a scope; a plan without a budget goes below it
    low_water: float = Field(0.9, gt=0, le=1)  # of the capacity, where forgetting stops
    archive_unseen_days: float = 90.0  # seed 2, 4.3
    archive_importance: float = 0.7  # seed 2, 4.3


class ProviderSettings(_Group):
    """How long a model may take before the engine goes on without it."""

    embed_timeout: float = Field(60.0, gt=0)  # seconds a batch, in a write
    model_timeout: float = Field(30.0, gt=0)  # seconds
    threads: int = Field(4, ge=1)
    breaker_failures: int = Field(3, ge=1)  # in a row, then the circuit opens
    breaker_rest: float = Field(30.0, gt=0)  # seconds until it is tried again
    batch: int = Field(64, ge=1)  # texts a call


class StoreSettings(_Group):
    """How the database is held."""

    busy_timeout: float = Field(5.0, gt=0)  # seconds that a writer waits for another
    cache_bytes: int = Field(512 * 1024 * 1024, ge=0)  # of vectors and postings, all scopes together


class Settings(_Group):
    """All groups; `Settings(recall=RecallSettings(preset="seed"))` changes one number and keeps the rest."""

    write: WriteSettings = WriteSettings()
    recall: RecallSettings = RecallSettings()
    context: ContextSettings = ContextSettings()
    forgetting: ForgettingSettings = ForgettingSettings()
    providers: ProviderSettings = ProviderSettings()
    store: StoreSettings = StoreSettings()
