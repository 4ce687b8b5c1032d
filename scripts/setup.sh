#!/bin/sh
# Makes the virtual environment ready: `scripts/setup.sh run` (what the broker needs), `spark` (the pipelines as well),
# `java` (a Java for Spark, where the machine has none) or `dev` (what the suite needs). `scripts/setup.sh sizes` says how
# much `make run` would download, if it has to.
#
# A finished set-up leaves a copy of what it was made from in the environment. As long as that copy equals the
# lock and pyproject.toml, there is nothing to do and no package index is called. An environment whose set-up was
# interrupted is made anew.
#
#   PYTHON   the interpreter to use; else the first of python3, python3.13, python3.12, python3.11, python3.14 that is 3.11+
#   VENV     where the environment is; .venv unless told otherwise
set -eu

flavour=${1:-run}
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}
lock=requirements/$flavour.lock
unfinished=$venv/.penstock-unfinished

refuse() {
    echo "penstock: $1" >&2
    exit 1
}

# What this environment is made from. The path is part of it: an environment does not survive being moved.
recipe() {
    pwd
    cat "$1" pyproject.toml
}

made_from() {
    [ -x "$venv/bin/python" ] && [ ! -e "$unfinished" ] && [ -e "$venv/.penstock-$1" ] &&
        recipe "requirements/$1.lock" | cmp -s - "$venv/.penstock-$1"
}

version_of() {
    "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null
}

recent_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

how_to_install() {
    case $(uname -s) in
    Darwin) echo "brew install python@3.13" ;;
    *) echo "on Debian and Ubuntu: apt-get install python3 python3-venv" ;;
    esac
}

find_python() {
    seen=
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14}; do
        command -v "$candidate" >/dev/null 2>&1 || continue
        if recent_enough "$candidate"; then
            python=$candidate
            return
        fi
        version=$(version_of "$candidate") || continue
        seen="$seen, found $candidate $version"
    done
    refuse "Python 3.11 or newer is needed${seen:-, found none}: install it ($(how_to_install)) or name one with PYTHON=..."
}

make_environment() {
    find_python
    "$python" -c 'import ensurepip, venv' 2>/dev/null && "$python" -m venv --clear "$venv" >/dev/null 2>&1 ||
        refuse "$python $(version_of "$python") cannot make virtual environments: install its venv module ($(how_to_install))"
}

# Whether an environment for one is one for the other too.
serves() {
    case $1 in
    run) made_from run || made_from spark || made_from dev ;;
    spark) made_from spark || made_from dev ;;
    *) made_from "$1" ;;
    esac
}

has_java() {
    for program in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} java; do
        version=$("$program" -version 2>&1 | sed -n '/version "/{s/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p;q;}')
        [ "${version:-0}" -ge 17 ] && return 0
    done
    return 1
}

if [ "$flavour" = sizes ]; then
    # Sums of the wheels that the locks name, as pip fetched them on Linux with Python 3.11.
    megabytes=0
    serves run || megabytes=$((megabytes + 7))
    serves spark || megabytes=$((megabytes + 530))
    has_java || serves java || megabytes=$((megabytes + 35))
    [ "$megabytes" = 0 ] || echo "penstock: this downloads about $megabytes MB, once; the broker starts before most of it"
    exit 0
fi
if serves "$flavour"; then
    exit 0
fi
[ -e "$lock" ] || refuse "there is no $lock"

if [ -e "$unfinished" ] || ! "$venv/bin/python" -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    make_environment
fi
touch "$unfinished"
echo "penstock: installing what $lock names into $venv (once)"
pip="$venv/bin/python -m pip --disable-pip-version-check --quiet --no-input"
# Environments made before the distribution was called penstock-mq hold it as penstock, which is another package.
for earlier in "$venv"/lib/python*/site-packages/penstock-[0-9]*.dist-info; do
    [ ! -e "$earlier" ] || $pip uninstall --yes penstock
done
$pip install --require-hashes -r "$lock"
$pip install --no-index --no-deps --no-build-isolation --editable .
recipe "$lock" >"$venv/.penstock-$flavour"
rm "$unfinished"
