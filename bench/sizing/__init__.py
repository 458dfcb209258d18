"""Sizing policies against simulated backends: virtual time, the real policies on the real pool core, seeded."""
