"""The lane log: one log with one writer, written once over the engines that make it durable."""
