"""Sessions: state of rows that are put together to the sessions they make, and what of these ends, grows or ceases."""
