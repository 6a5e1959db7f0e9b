"""Carrying out what is planned: facts of an open pond, steps one by one, answers, scripts.

A step is added in `planned` and carried out in `performing`; all else may be changed without looking elsewhere.
"""
