"""The gRPC way to ask. The `…_pb2.py` are generated: see tests/unit/serving/test_protos.py."""
