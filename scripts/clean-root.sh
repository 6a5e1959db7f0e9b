#!/bin/sh
# Tries `make demo` where nothing is but python3 and make: in a root that debootstrap makes. As root, with debootstrap.
#
#   scripts/clean-root.sh trixie                                                    Debian 13
#   scripts/clean-root.sh bookworm                                                  Debian 12
#   MIRROR=http://archive.ubuntu.com/ubuntu scripts/clean-root.sh noble             Ubuntu 24.04
#
# MIRROR: where packages come from. ROOT: the folder to make the root in; by default a temporary one. KEEP=1: it stays.
# CA: a bundle of certificates for a network that has its own; by default Debian's.
# Packages of Ubuntu are checked where its keys are there (Debian: apt-get install ubuntu-keyring).
# Ends with status 0 when the demo has shown its answers and no tool for tests was installed.
set -eu
suite=${1:?usage: clean-root.sh SUITE}
case $suite in
noble | jammy | resolute) standard=http://archive.ubuntu.com/ubuntu components=main,universe family=gutsy ;;
*) standard=http://deb.debian.org/debian components=main family=sid ;;
esac
mirror=${MIRROR:-$standard}
source=$(cd "$(dirname "$0")/.." && pwd)
root=${ROOT:-$(mktemp -d)}

say() { printf '%s %s\n' "$(date -u +%H:%M:%S)" "$*"; }
fail() { say "error: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "debootstrap and chroot need root"
command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"

# shellcheck disable=SC2317  # the trap calls it
leave() {
    for point in proc dev; do umount -R "$root/$point" 2>/dev/null || true; done
    if [ -z "${KEEP:-}" ] && ! mountpoint -q "$root/proc" && ! mountpoint -q "$root/dev"; then rm -rf "$root"; fi
}
trap leave EXIT
trap 'exit 130' INT TERM

say "making a root of $suite from $mirror in $root"
# A debootstrap that is older than the suite does not know its name; all suites of a family are made alike.
steps=/usr/share/debootstrap/scripts/$suite
[ -e "$steps" ] || steps=/usr/share/debootstrap/scripts/$family
debootstrap --variant=minbase --components="$components" --include=python3,make,ca-certificates \
    "$suite" "$root" "$mirror" "$steps" >"$root.log" 2>&1 || { tail -n 5 "$root.log"; fail "debootstrap failed"; }
rm -f "$root.log"
if [ -n "${CA:-}" ]; then
    mkdir -p "$root/usr/local/share/ca-certificates"
    cp "$CA" "$root/etc/ssl/certs/ca-certificates.crt"
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/millpond"
git -C "$source" archive HEAD | tar -x -C "$root/millpond"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"

within() { chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    ${CA:+PIP_CERT=/etc/ssl/certs/ca-certificates.crt} sh -c "$1"; }

within '. /etc/os-release; echo "$PRETTY_NAME: $(python3 --version), $(make --version | head -n 1)"'
say "make demo"
within 'cd /millpond && make demo' >"$root/demo.log" 2>&1 || { tail -n 40 "$root/demo.log"; fail "make demo failed"; }
tail -n 40 "$root/demo.log"
grep -q '┃' "$root/demo.log" || fail "the demo showed no answers"
for tool in pytest ruff mypy; do
    [ ! -e "$root/millpond/.venv/bin/$tool" ] || fail "make demo has installed $tool, which is for tests"
done
within 'cd /millpond && du -sh .venv && java -version 2>&1 | head -n 1'
say "$suite: make demo works on a clean root"
