"""What files declare: definitions, limits, the emulator's format."""
