"""Measurements that take minutes. Not part of the tests."""
