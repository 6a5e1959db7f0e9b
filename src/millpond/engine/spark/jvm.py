"""The JVM that Spark runs in, started so that a short command is not mostly waiting for it.

PySpark starts its JVM by two shell scripts and another JVM, when everything of Python is imported, and lets it write
on the user's standard error. Here Java is started first and at once, as Spark's launcher would start it (a test
compares the two), with options for a JVM that does little itself: rows never pass through it, so the quick compiler
will do. A machine where SPARK_HOME or the like is set has its own idea of how Spark is to be started, which then holds.
"""

from __future__ import annotations

import importlib.util
import os
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from millpond.support.doctor import find_java, java_help
from millpond.support.errors import PondError

#: Who sets one of these wants Spark started in another way.
OWN_WAY = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_CLASSPATH")

#: Logging from the first moment on: errors, on standard error. Spark's own default warns of what is normal here.
LOGGING = Path(__file__).with_name("log4j2.properties")

#: What Spark's launcher gives every JVM of its version, but for a module of vectors that only MLlib knows to use.
MODULES = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(
        f"--add-opens={package}=ALL-UNNAMED"
        for package in (
            "java.base/java.lang",
            "java.base/java.lang.invoke",
            "java.base/java.lang.reflect",
            "java.base/java.io",
            "java.base/java.net",
            "java.base/java.nio",
            "java.base/java.util",
            "java.base/java.util.concurrent",
            "java.base/java.util.concurrent.atomic",
            "java.base/jdk.internal.ref",
            "java.base/sun.nio.ch",
            "java.base/sun.nio.cs",
            "java.base/sun.security.action",
            "java.base/sun.util.calendar",
            "java.security.jgss/sun.security.krb5",
        )
    ),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)

#: A JVM that starts quickly and needs little: no second compiler, one thread that collects garbage.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto")

_PATIENCE = 120.0


@dataclass
class Jvm:
    """A JVM that starts. `process` is alive as long as its standard input is open."""

    process: subprocess.Popen[bytes]
    folder: str

    def address(self) -> tuple[int, str]:
        """Where it listens, and the secret to say, as soon as it does.

        Raises: PondError when it has ended, or does not answer.
        """
        file = Path(self.folder, "address")
        deadline = time.monotonic() + _PATIENCE
        while not file.is_file():
            status = self.process.poll()
            if status is not None or time.monotonic() > deadline:
                why = f"ended with status {status}" if status is not None else f"did not answer in {_PATIENCE:g} s"
                raise PondError(f"Spark's Java process {why}; `millpond doctor` looks at what may be wrong")
            time.sleep(0.01)
        with open(file, "rb") as data:
            port, length = _number(data), _number(data)
            secret = data.read(length).decode()
        file.unlink()
        os.rmdir(self.folder)
        return port, secret


def has_own_way(master: str | None) -> bool:
    """Whether the environment or the kind of cluster says how Spark is started: YARN and the like add to its JVM.

    Where it does not, PySpark's own way is avoided: it runs Python between fork and exec, which can crash in a process
    that has threads.
    """
    plain = master is None or master.startswith(("local", "spark://"))
    return not plain or any(os.environ.get(name) for name in OWN_WAY)


def command(java: str, settings: Mapping[str, str]) -> list[str]:
    """The command that starts Spark's JVM.

    Arguments:
        java: home of a Java. settings: of Spark, by name.
    """
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None
    jars = Path(found.origin).parent / "jars"
    api = sorted(jars.glob("slf4j-api-*.jar"))[:1]
    options = [*MODULES, *QUICK, f"-Dlog4j2.configurationFile=file:{LOGGING}"]
    given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    path = os.pathsep.join([*map(str, api), f"{jars}/*"])
    memory = settings.get("spark.driver.memory", "1g")
    main = "org.apache.spark.deploy.SparkSubmit"
    return [str(Path(java, "bin", "java")), "-cp", path, f"-Xmx{memory}", *options, main, *given, "pyspark-shell"]


def start(settings: Mapping[str, str]) -> Jvm:
    """Start a JVM with Spark; does not wait for it.

    Raises: PondError when there is no Java that Spark runs on.
    """
    java = find_java()
    if java is None:
        raise PondError(f"there is no Java 17 or newer, which Spark needs: {java_help()}")
    folder = tempfile.mkdtemp(prefix="millpond-spark-")
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None
    environment = {
        **os.environ,
        "SPARK_HOME": str(Path(found.origin).parent),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": os.path.join(folder, "address"),
    }
    # Signals that go to everybody in the group (Ctrl-C, a service manager's SIGTERM) are for the pond, which ends it.
    process = subprocess.Popen(command(java, settings), stdin=subprocess.PIPE, env=environment, start_new_session=True)
    return Jvm(process, folder)


@contextmanager
def gateway_of(jvm: Jvm) -> Iterator[None]:
    """While it is open, PySpark connects to this JVM in place of starting one."""
    port, secret = jvm.address()
    given = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(given)
    try:
        yield
    finally:
        for name in given:
            os.environ.pop(name, None)


def _number(data: IO[bytes]) -> int:
    """A number as Java's DataOutputStream writes it."""
    value: tuple[Any, ...] = struct.unpack("!i", data.read(4))
    return int(value[0])
