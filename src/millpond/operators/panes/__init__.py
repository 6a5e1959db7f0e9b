"""Windows of time from pane partials: state in one of two forms, prefixes of landmarks, adaptive groups."""
