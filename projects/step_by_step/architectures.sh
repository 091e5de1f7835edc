#!/usr/bin/env bash
# GPT-2, BART and T5 alike, from scratch: four layers of 256 (and four of a decoder), about twenty minutes of one core each,
# which is too little (README). SCALE=10 trains ten times as long, and audits what came of it.
# DATAPATH holds google_sgd/{train,dev} in ParlAI's layout. What is interrupted goes on with the same command.
set -euo pipefail
DATAPATH=${DATAPATH:-.data}
MODELS=${MODELS:-models/architectures}
OUT=${OUT:-runs/architectures}
SCALE=${SCALE:-1}
TRAIN=(--corpus google_sgd --datapath "$DATAPATH" --held-out 40 --seed 0 --patience 99 --batch-tokens 1024 --epochs "$SCALE")
SCRATCH=("${TRAIN[@]}" --layers 4 --width 256 --heads 4 --vocabulary 5000 --dropout 0 --positions 1024)

# A causal model learns from all tokens of a dialogue first (SimpleTOD), then from calls and responses alone.
tod-bias train --arch gpt2 "${SCRATCH[@]}" --max-length 192 --learning-rate 2e-3 --max-steps $((1500 * SCALE)) --evaluations 8 \
  --out "$MODELS/gpt2_short"
tod-bias train --init "$MODELS/gpt2_short" "${TRAIN[@]}" --loss targets --max-length 320 --learning-rate 1e-3 \
  --max-steps $((900 * SCALE)) --evaluations 4 --out "$MODELS/gpt2"
# Sequence to sequence: every call and response is a text of its own, with what was said before it; short texts first.
for arch in bart t5; do
  tod-bias train --arch $arch "${SCRATCH[@]}" --max-length 64 --learning-rate 1e-3 --max-steps $((2000 * SCALE)) --evaluations 20 \
    --out "$MODELS/${arch}_short"
  tod-bias train --init "$MODELS/${arch}_short" "${TRAIN[@]}" --max-length 192 --learning-rate 5e-4 --max-steps $((1000 * SCALE)) \
    --evaluations 60 --out "$MODELS/$arch"
done

for arch in gpt2 bart t5; do
  test -f "$OUT/evaluation_$arch/evaluation.json" ||
    tod-bias evaluate --corpus google_sgd --datapath "$DATAPATH" --split valid --max-dialogues 120 \
      --model "$MODELS/$arch" --max-new-tokens 64 --out "$OUT/evaluation_$arch"
  test "$SCALE" -eq 1 ||
    tod-bias attribute --corpus google_sgd --datapath "$DATAPATH" --split valid --axes gender,age,race,placebo \
      --max-per-axis 60 --metrics corpus_bleu,slot_f1,call_disagreement --bootstrap 1000 --seed 0 \
      --model "$MODELS/$arch" --max-new-tokens 64 --out "$OUT/$arch"
done
