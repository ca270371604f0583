"""Files and directories that belong to the server alone."""
