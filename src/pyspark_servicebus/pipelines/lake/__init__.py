"""What a capture writes: files, manifests, Delta tables, in a folder or bucket."""
