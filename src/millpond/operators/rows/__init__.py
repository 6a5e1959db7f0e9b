"""Windows that end with rows: state of sorted rows, and the windows that they close."""
