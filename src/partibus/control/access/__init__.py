"""Who may do what: policies with keys, tokens, and the grants they give."""
