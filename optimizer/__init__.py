"""Profile, edit, gate, search, report."""
