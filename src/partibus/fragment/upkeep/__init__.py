"""What a broker does besides commands: timers, recovery, removal, space, damage."""
