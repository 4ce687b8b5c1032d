#!/bin/sh
# Resolves the dependencies again, for every system and Python that pyproject.toml allows. The locks name versions
# and hashes and no download address, so they hold with any index. Settings of the machine's own index
# (UV_INDEX_URL and the like) are used for resolving, and nothing of them is written.
set -eu
cd "$(dirname "$0")/.."
uv=${VENV:-.venv}/bin/uv

# The editable install builds without isolation, so what builds us is locked too.
build_requirement() {
    sed -n 's/^requires = \[\(.*\)\]$/\1/p' pyproject.toml | tr -d '"' | tr "," "\n" | grep setuptools
}

resolve() {
    lock=$1
    shift
    build_requirement | "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
        --no-emit-index-url --no-emit-find-links --no-emit-package penstock-mq --no-annotate \
        --custom-compile-command "make lock" "$@" --output-file "$lock" pyproject.toml -
}

resolve requirements/dev.lock --extra dev
# The same versions, so that `make test` after `make run` only adds.
resolve requirements/run.lock --constraint requirements/dev.lock
resolve requirements/spark.lock --extra spark --constraint requirements/dev.lock
resolve requirements/java.lock --extra java --constraint requirements/dev.lock
