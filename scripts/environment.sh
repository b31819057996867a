# Sourced by the scripts beside it: goes to the project's root and puts its .venv first, made and filled when needed.
#   prepare requirements.txt [more files]
set -euo pipefail
cd "${BASH_SOURCE[0]%/*}/.."

# The first Python that there is and that the versions of requirements.txt were tried with.
find_python() {
    local name
    for name in python3.11 python3.12 python3.13 python3; do
        if "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    return 1
}

prepare() {
    local wanted stamp=.venv/installed
    wanted=$(sha256sum "$@" setup.py)
    if [ ! -x .venv/bin/python ]; then
        local python
        python=$(find_python) || { echo 'error: Python 3.11, 3.12 or 3.13 is needed; install one and try again' >&2; exit 2; }
        "$python" -m venv .venv
    fi
    # A line for each file of the last installation: that for the tests also serves the quickstart, whose files are
    # among its own.
    touch "$stamp"
    if grep -qvxFf "$stamp" <<< "$wanted"; then
        echo "installing $* into .venv"
        local arguments=()
        for file in "$@"; do arguments+=(-r "$file"); done
        : > "$stamp"   # what an installation that fails leaves behind is nobody's
        .venv/bin/python -m pip install --quiet --disable-pip-version-check "${arguments[@]}"
        echo "$wanted" > "$stamp"
    fi
    export PATH="$PWD/.venv/bin:$PATH" TF_CPP_MIN_LOG_LEVEL=3
}
