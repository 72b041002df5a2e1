"""The load-path interposer and what packs its manifest."""
