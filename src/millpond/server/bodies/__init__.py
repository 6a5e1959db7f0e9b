"""Bodies of requests and answers: read within limits, decoded, encoded as JSON, CSV and Arrow, held page by page.

What they look like is what clients rely on (`millpond.support.wire`); how they are made may be changed freely.
"""
