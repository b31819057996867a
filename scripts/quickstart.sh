#!/usr/bin/env bash
# VIRTUAL with and without private weights, FedAvg and FedProx on the embedded data set.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare requirements.txt
exec python -m scripts.run --method=virtual,fedavg,fedprox --private=none,after --dataset=watch --rounds=60 \
    --output_dir=runs/quickstart "$@"
