# Sourced by the scripts beside it: goes to the project's root and puts its .venv first, made and filled when needed.
#   prepare requirements.txt [more files]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

prepare() {
    local wanted stamp=.venv/installed
    wanted=$(sha256sum "$@" setup.py)
    if [ ! -x .venv/bin/python ]; then
        command -v python3.11 >/dev/null || { echo 'error: Python 3.11 is needed; install it and try again' >&2; exit 2; }
        python3.11 -m venv .venv
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
