"""Traces and metrics for OpenTelemetry, exported over OTLP."""
