#!/usr/bin/env bash
# The three stages as Slurm jobs, each after the one before. On the login node:
#     export RUN=/shared/runs/books DATA=/shared/data/books; docs/cluster/submit.sh
# RUN and DATA are on a file system that all nodes mount; solar-tf is installed for all of them.
set -euo pipefail
: "${RUN:?the run directory, on the shared file system}"
: "${DATA:?the folder of train.txt, test.txt and labels.txt}"
chunks=${CHUNKS:-16} # K
here=$(dirname "$0")

first=$(sbatch --parsable --job-name=solar-preprocess --cpus-per-task=16 --mem=32G --wrap "
    preprocess.py --run $RUN --num_chunks $chunks --workers 16 \
        --train $DATA/train.txt --test $DATA/test.txt --labels $DATA/labels.txt")
second=$(sbatch --parsable --dependency="afterok:$first" --array="0-$((chunks - 1))" "$here/train.sbatch")
sbatch --dependency="afterok:$second" --job-name=solar-infer --cpus-per-task=16 --mem=32G --wrap "
    infer.py --run $RUN --workers 16"
