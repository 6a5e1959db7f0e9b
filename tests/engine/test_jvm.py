"""How Spark's JVM is started: as Spark's own launcher would, but for what is meant to differ."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from millpond.engine.spark.jvm import MODULES, QUICK, command, has_own_way
from millpond.support.doctor import find_java

HOME = Path(pyspark.__file__).parent


def test_the_command_is_the_launchers() -> None:
    """A new Spark may want other options: the launcher, which is a class of Spark's, says which."""
    java = find_java()
    assert java is not None
    launched = subprocess.run(
        [f"{java}/bin/java", "-cp", f"{HOME}/jars/*", "org.apache.spark.launcher.Main",
         "org.apache.spark.deploy.SparkSubmit", "--conf", "spark.master=local[2]", "pyspark-shell"],
        env={**os.environ, "SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13"}, capture_output=True, check=True,
    ).stdout.decode().replace("\0", "\n").split()  # fmt: skip
    wanted = {w for w in launched if w.startswith(("-X", "--", "-D")) and w != "--conf"}
    ours = command(java, {"spark.master": "local[2]"})
    assert wanted - set(ours) == {"--add-modules=jdk.incubator.vector"}
    assert set(MODULES) <= wanted
    assert set(QUICK) <= set(ours)
    assert launched[launched.index("-cp") + 1].split(":")[1:] == ours[ours.index("-cp") + 1].split(":")
    assert launched[-4:] == ours[-4:]


@pytest.mark.parametrize("name", ["SPARK_HOME", "PYSPARK_SUBMIT_ARGS"])
def test_who_has_an_own_way_keeps_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for each in ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR"):
        monkeypatch.delenv(each, raising=False)
    assert not any(has_own_way(master) for master in (None, "local[2]", "spark://127.0.0.1:7077"))
    assert has_own_way("yarn") and has_own_way("k8s://https://127.0.0.1:6443")
    monkeypatch.setenv(name, "x")
    assert has_own_way(None)
