#!/bin/sh
# Compiles the modules that pyproject.toml lists (tool.penstock.compiled) into build/compiled, a copy of the package that
# the suite runs a second time. What is there is kept while the sources and the interpreter are the same. Without a
# compiler there is no build/compiled; on CI (CI=true) that is a failure.
set -eu
cd "$(dirname "$0")/.."
python=${VENV:-.venv}/bin/python
compiled=build/compiled

# What the compiled modules are made from.
recipe() {
    "$python" -VV
    find pyproject.toml setup.py src -name '*.py' -o -name '*.c' -o -name '*.toml' | LC_ALL=C sort | xargs cksum
}

if ! command -v "${CC:-cc}" >/dev/null 2>&1; then
    rm -rf "$compiled"
    echo "penstock: there is no C compiler: the compiled modules are not built, and not tested" >&2
    [ "${CI:-}" != true ] || exit 1
    exit 0
fi
if [ -e "$compiled/recipe" ] && recipe | cmp -s - "$compiled/recipe"; then
    exit 0
fi
rm -rf "$compiled" build/compiling
mkdir -p build
echo "penstock: compiling the hot path with mypyc (a minute or two, once)"
PENSTOCK_COMPILE=1 "$python" setup.py --quiet build --build-base build/compiling --build-lib "$compiled" >build/compile.log 2>&1 || {
    cat build/compile.log >&2
    rm -rf "$compiled"
    exit 1
}
rm -rf build/compiling
recipe >"$compiled/recipe"
