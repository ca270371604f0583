"""Coverage-guided fuzzing: the targets, their corpus, and the fuzzer around them."""
