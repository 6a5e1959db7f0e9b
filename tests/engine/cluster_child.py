"""Runs the main scenario on a Spark master: `cluster_child.py FOLDER MASTER`; answers go to FOLDER/answers.pickle."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import millpond
from tests.engine.scenario import run

folder, master = Path(sys.argv[1]), sys.argv[2]
with millpond.open(str(folder / "pond"), master=master) as pond:
    answers = run(pond, folder / "src")
(folder / "answers.pickle").write_bytes(pickle.dumps(answers))
