"""Tables: read from files or databases, kept as versions that epochs name."""
