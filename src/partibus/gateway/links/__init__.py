"""Links: what clients attach, and the transfers and settlements on them."""
