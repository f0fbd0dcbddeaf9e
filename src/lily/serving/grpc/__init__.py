"""The gRPC way to ask. `access_pb2.py` is generated: see tests/unit/serving/test_protos.py."""
