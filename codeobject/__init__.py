"""Code objects: read, recover, rebuild, analyse. What every later stage builds on."""
