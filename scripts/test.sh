#!/usr/bin/env bash
# ruff and the whole test suite; arguments go to pytest (-m slow for the long checks).
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare requirements.txt requirements-dev.txt requirements-flower.txt
ruff check .
# A file stays with one worker, which so shares its fixtures and its ports.
exec python -m pytest -n auto --dist loadfile --no-loadscope-reorder "$@"
