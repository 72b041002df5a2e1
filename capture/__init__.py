"""Snapshot kernel dispatches of live processes; the bundle format."""
