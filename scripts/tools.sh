#!/bin/sh
# Fetches what the foreign tests and the benchmarks run: Apache Kafka's jars (through Maven) and kcat.
# Root on Debian gets missing programs installed; anybody else is told what to install. Quick when all is there.
#
#   PENSTOCK_TOOLS   where the jars go; ~/.cache/penstock/tools unless told otherwise
set -eu
cd "$(dirname "$0")/.."
tools=${PENSTOCK_TOOLS:-$HOME/.cache/penstock/tools}
kafka=$tools/kafka
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

# The copied pom is the proof that every jar it names has arrived: it is the last file to get there.
have_kafka() {
    cmp -s peers/kafka-pom.xml "$kafka/pom.xml"
}

fetch_kafka() {
    echo "penstock: fetching Apache Kafka into $kafka"
    rm -rf "$kafka.new"
    mkdir -p "$kafka.new"
    mvn -q -B -f peers/kafka-pom.xml dependency:copy-dependencies -DoutputDirectory="$kafka.new/libs" || return 1
    cp peers/kafka-pom.xml "$kafka.new/pom.xml"
    rm -rf "$kafka"
    mv "$kafka.new" "$kafka"
}

install_package java default-jre-headless openjdk@17
if have java && ! java_is_recent; then
    report "Java 17 or newer" "apt-get install openjdk-17-jre-headless, or brew install openjdk@17"
fi
if ! have_kafka; then
    install_package mvn maven maven
    if have mvn && have java; then
        fetch_kafka || report "Apache Kafka" "Maven could not fetch it, its words are above"
    fi
fi
install_package kcat kcat kcat
[ -z "$missing" ]
