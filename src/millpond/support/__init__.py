"""Ground: errors, the wire format, compiled loops, what the machine has. Imports nothing of Millpond but itself."""
