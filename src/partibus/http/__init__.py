"""What every HTTP interface of the server does in the same way."""
