"""What is refused although it can be understood: functions that look at a tree and raise."""
