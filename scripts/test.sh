#!/usr/bin/env bash
# ruff and the whole test suite; arguments go to pytest (-m slow for the long checks).
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare requirements.txt requirements-dev.txt requirements-flower.txt
ruff check .
exec python -m pytest "$@"
