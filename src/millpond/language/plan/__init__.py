"""From bound trees to queries: of which type they are, and how their answers are made."""
