"""Measurements that take minutes. They are not part of the tests."""
