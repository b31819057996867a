#!/usr/bin/env bash
# VIRTUAL, FedAvg and FedProx on the embedded data set.
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare requirements.txt
exec python -m scripts.run --method=virtual,fedavg,fedprox --dataset=watch --rounds=60 \
    --output_dir=runs/quickstart "$@"
