"""What the operators of windows have in common: closing, revising and catching up windows, early answers, needs."""
