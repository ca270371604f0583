"""What a broker does beside commands: timers, recovery, removal, space, damage."""
