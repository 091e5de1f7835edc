#!/usr/bin/env bash
# The study of this folder, from nothing: DATAPATH holds google_sgd/{train,dev} in ParlAI's layout.
set -euo pipefail
DATAPATH=${DATAPATH:-.data}
MODEL=${MODEL:-models/sgd_gpt2}
OUT=${OUT:-runs/step_by_step}

# Four layers of 256, from scratch, every token counts (SimpleTOD); the schedule is that of two epochs, cut at 1158 steps.
tod-bias train --arch gpt2 --init scratch --corpus google_sgd --datapath "$DATAPATH" --held-out 300 --seed 0 \
  --layers 4 --width 256 --heads 4 --vocabulary 5000 --dropout 0 --learning-rate 1.5e-3 --batch-tokens 8192 \
  --epochs 2 --max-steps 1158 --evaluations 3 --bf16 --out "$MODEL"

tod-bias evaluate --corpus google_sgd --datapath "$DATAPATH" --split valid --max-dialogues 300 \
  --model "$MODEL" --max-new-tokens 96 --out "$OUT/evaluation"

# Two processes of one thread each on two cores; on a GPU: accelerate launch -m tod_bias.attribute …
OMP_NUM_THREADS=1 torchrun --nproc_per_node 2 -m tod_bias.attribute --corpus google_sgd --datapath "$DATAPATH" \
  --split valid --axes gender,age,race,placebo --max-per-axis 150 --draws 3 --bootstrap 1000 --seed 0 \
  --model "$MODEL" --max-new-tokens 96 --out "$OUT/attribution"
