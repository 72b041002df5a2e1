"""Judges candidates: assemble, static, equivalent, faster."""
