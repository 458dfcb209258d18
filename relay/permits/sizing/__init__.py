"""Capacity that follows load, a schedule, or what callers report: pure policies, and the sizer that keeps them in bounds."""
