#!/bin/sh
# Fetches what the foreign tests and the benchmarks run: the jars of Apache Kafka, ZooKeeper and Spark's own Kafka
# connector (through Maven), kcat, and a browser.
# Root on Debian gets missing programs installed; anybody else is told what to install. Quick when all is there.
#
# `scripts/tools.sh at-hand` is what `make test` does first: it fetches the jars where Java 17 and Maven are there, installs
# nothing, and never fails. Tests whose tool is missing are skipped by name.
#
#   PENSTOCK_TOOLS   where the jars go; ~/.cache/penstock/tools unless told otherwise
set -eu
cd "$(dirname "$0")/.."
mode=${1:-all}
tools=${PENSTOCK_TOOLS:-$HOME/.cache/penstock/tools}
missing=

have() {
    command -v "$1" >/dev/null 2>&1
}

# install_package PROGRAM DEBIAN-PACKAGE BREW-PACKAGE
install_package() {
    have "$1" && return
    if have apt-get && [ "$(id -u)" = 0 ]; then
        echo "penstock: installing $2"
        [ -n "${updated:-}" ] || apt-get update -qq || true
        updated=yes
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null || true
    fi
    have "$1" || report "$1" "apt-get install $2, or brew install $3"
}

report() {
    echo "penstock: $1 is missing: $2" >&2
    missing="$missing $1"
}

java_is_recent() {
    major=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p')
    [ "${major:-0}" -ge 17 ]
}

# have_jars NAME: the copied pom is the proof that every jar it names has arrived, as the last file to get there.
have_jars() {
    cmp -s "peers/$1-pom.xml" "$tools/$1/pom.xml"
}

# fetch_jars NAME FULL-NAME
fetch_jars() {
    new=$tools/$1.new
    echo "penstock: fetching $2 into $tools/$1"
    rm -rf "$new"
    mkdir -p "$new"
    mvn -q -B -f "peers/$1-pom.xml" dependency:copy-dependencies -DoutputDirectory="$new/libs" || return 1
    cp "peers/$1-pom.xml" "$new/pom.xml"
    rm -rf "${tools:?}/$1"
    mv "$new" "$tools/$1"
}

# Sizes as Maven fetched them, in MB.
megabytes_missing() {
    megabytes=0
    have_jars kafka || megabytes=$((megabytes + 126))
    have_jars zookeeper || megabytes=$((megabytes + 8))
    have_jars spark-kafka || megabytes=$((megabytes + 10))
    echo $megabytes
}

say_size() {
    [ "$(megabytes_missing)" = 0 ] ||
        echo "penstock: this downloads about $(megabytes_missing) MB of jars, once, into $tools"
}

# One test looks at a page with it, and nothing else here needs it: it is no failure where it cannot be had.
want_browser() {
    have chromium && return
    if have apt-get && [ "$(id -u)" = 0 ]; then
        echo "penstock: installing chromium, 133 MB"
        [ -n "${updated:-}" ] || apt-get update -qq || true
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null || true
    fi
    have chromium || echo "penstock: chromium is missing (apt-get install chromium); one test is skipped without"
}

# want_jars NAME FULL-NAME
want_jars() {
    have_jars "$1" && return
    have mvn && have java || return 0  # already said to be missing
    fetch_jars "$1" "$2" || report "$2" "Maven could not fetch it, its words are above"
}

if [ "$mode" = at-hand ]; then
    have java && java_is_recent && have mvn || exit 0
    say_size
    # One that cannot be had is enough to know: without a network each would wait for Maven to give up.
    want_jars kafka "Apache Kafka"
    [ -n "$missing" ] || want_jars zookeeper "Apache ZooKeeper"
    [ -n "$missing" ] || want_jars spark-kafka "Spark's Kafka connector"
    [ -z "$missing" ] || echo "penstock: the suite goes on without; what needs them is skipped" >&2
    exit 0
fi
# A JDK: two tests compile programs of Kafka's clients.
install_package java default-jdk-headless openjdk@17
if have java && ! java_is_recent; then
    report "Java 17 or newer" "apt-get install openjdk-17-jre-headless, or brew install openjdk@17"
fi
have_jars kafka && have_jars zookeeper && have_jars spark-kafka || install_package mvn maven maven
say_size
want_jars kafka "Apache Kafka"
want_jars zookeeper "Apache ZooKeeper"
want_jars spark-kafka "Spark's Kafka connector"
install_package kcat kcat kcat
want_browser
[ -z "$missing" ]
