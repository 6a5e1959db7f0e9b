"""How an archive is designed and reduced (OSCAR): pure functions and state machines over row ids and reductions."""
