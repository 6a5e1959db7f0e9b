"""Tests of the command line, with a fake pond (`fakes`), with the inline executor, and as a process of its own."""
