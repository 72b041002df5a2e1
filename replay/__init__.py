"""Restore a bundle on a device, launch, compare: the differential oracle."""
