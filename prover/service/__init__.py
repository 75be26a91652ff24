"""What a prover offers over the network: gRPC `cuzk.v1.ProvingEngine`, GET /status, metrics and health."""

import os

# gRPC looks at this when it is imported. Its handlers of fork() serve processes that go on with gRPC in a child that
# never calls exec; ours always do, and each start of one would only be a line of warning.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
