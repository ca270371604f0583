"""The REST data plane: send, receive and settle over HTTP, on the gateway's own routing."""
