#!/bin/sh
# Makes the machine ready: `prepare.sh venv` builds .venv from constraints.txt with what Millpond needs to run,
# `prepare.sh dev` adds what its tests and benchmarks need, `prepare.sh java` sees to Java 17 or newer.
# As root on Debian or Ubuntu a missing venv module and missing Java are installed; everywhere else this says what to
# install and stops.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }
fail() { say "error: $1"; shift; for line in "$@"; do say "  $line"; done; exit 1; }

on_debian() { command -v apt-get >/dev/null 2>&1; }
is_root() { [ "$(id -u)" = 0 ]; }

# Whether there is a package of that name to install; `apt-cache show` finds names that other packages stand for, too.
is_offered() { apt-cache policy "$1" 2>/dev/null | grep -q '^ *Candidate: [^(]'; }

# Installs packages, quietly as long as nothing goes wrong.
install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# The first interpreter that is 3.11 or newer; $PYTHON decides when it is set.
find_python() {
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer was not found${PYTHON:+ as '$PYTHON'}" "on Debian or Ubuntu: apt-get install python3 python3-venv"
}

has_venv() { "$1" -c 'import venv, ensurepip' >/dev/null 2>&1; }

# Debian and Ubuntu have the module in a package of its own, one for each version of Python.
prepare_venv_module() {
    package=$("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if on_debian && is_root; then
        say "Python's venv module is missing: installing $package"
        apt-get update -qq >/dev/null
        is_offered "$package" || package=python3-venv
        install "$package"
        has_venv "$1" || fail "$package was installed, but $1 has no venv module" "set PYTHON to another interpreter"
    elif on_debian; then
        fail "Python's venv module is missing" "sudo apt-get install $package" \
            "(where that name does not exist: sudo apt-get install python3-venv)"
    else
        fail "Python's venv module is missing" "install it, or set PYTHON to an interpreter that has it"
    fi
}

prepare_venv() {
    python=$(find_python)
    has_venv "$python" || prepare_venv_module "$python"
    if ! .venv/bin/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        say "making .venv with $("$python" --version)"
        "$python" -m venv --clear .venv
    fi
    say "installing into .venv (the first time takes a minute or two: PySpark is large)"
    install_python .
    touch .venv/ready
}

prepare_dev() {
    say "installing the tools for tests into .venv"
    install_python '.[dev]'
    touch .venv/dev
}

install_python() {
    PIP_DISABLE_PIP_VERSION_CHECK=1 .venv/bin/python -m pip install --quiet --constraint constraints.txt --editable "$1"
}

# Prints the major version of a java command, nothing when it does not run.
java_major() {
    "$1" -version 2>&1 | sed -n 's/.*version "\([0-9][0-9]*\)[^"]*".*/\1/p' | head -n 1
}

has_java() {
    for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" java /usr/lib/jvm/*/bin/java; do
        [ -n "$java" ] && command -v "$java" >/dev/null 2>&1 || continue
        major=$(java_major "$java")
        [ -n "$major" ] && [ "$major" -ge 17 ] && return 0
    done
    return 1
}

prepare_java() {
    has_java && return
    if on_debian && is_root; then
        say "Java 17 or newer is missing: installing Debian's headless runtime"
        apt-get update -qq >/dev/null
        package=openjdk-17-jre-headless
        # Newer releases carry a newer Java only.
        is_offered "$package" || package=default-jre-headless
        install "$package"
        has_java || fail "$package was installed, but no Java 17 or newer was found" "set JAVA_HOME to its folder"
    elif on_debian; then
        fail "Java 17 or newer is missing; Spark needs it" "sudo apt-get install openjdk-17-jre-headless" \
            "(where that name does not exist: sudo apt-get install default-jre-headless)"
    else
        fail "Java 17 or newer is missing; Spark needs it" "install a JRE, for example Temurin 17, and set JAVA_HOME to its folder"
    fi
}

case "${1:-}" in
venv) prepare_venv ;;
dev) prepare_dev ;;
java) prepare_java ;;
*) fail "usage: prepare.sh venv|dev|java" ;;
esac
