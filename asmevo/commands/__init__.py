"""One module a command: parse, call, render. Heavy imports stand inside the command functions."""
