"""Compares Waybill with other ways to run the same durable work: python -m benchmarks.beside_peers."""
