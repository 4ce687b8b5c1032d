#!/bin/sh
# Fetches what the foreign tests and the benchmarks run: the jars of Apache Kafka, ZooKeeper and Spark's own Kafka
# connector (through Maven), and kcat.
# Root on Debian gets missing programs installed; anybody else is told what to install. Quick when all is there.
#
#   PENSTOCK_TOOLS   where the jars go; ~/.cache/penstock/tools unless told otherwise
set -eu
cd "$(dirname "$0")/.."
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

# want_jars NAME FULL-NAME
want_jars() {
    have_jars "$1" && return
    have mvn && have java || return 0  # already said to be missing
    fetch_jars "$1" "$2" || report "$2" "Maven could not fetch it, its words are above"
}

install_package java default-jre-headless openjdk@17
if have java && ! java_is_recent; then
    report "Java 17 or newer" "apt-get install openjdk-17-jre-headless, or brew install openjdk@17"
fi
have_jars kafka && have_jars zookeeper && have_jars spark-kafka || install_package mvn maven maven
want_jars kafka "Apache Kafka"
want_jars zookeeper "Apache ZooKeeper"
want_jars spark-kafka "Spark's Kafka connector"
install_package kcat kcat kcat
[ -z "$missing" ]
