#!/usr/bin/env bash
# GPT-2, BART and T5 from scratch, four layers of 256 (and four of a decoder): about twenty minutes each on two cores with
# AMX, in bfloat16; short texts first. Every schedule ends with its training. SCALE=10 takes ten times as many dialogues.
# DATAPATH holds google_sgd/{train,dev} in ParlAI's layout. What is interrupted goes on with the same command.
set -euo pipefail
DATAPATH=${DATAPATH:-.data}
MODELS=${MODELS:-models/architectures}
OUT=${OUT:-runs/architectures}
SCALE=${SCALE:-1}
TRAIN=(--corpus google_sgd --datapath "$DATAPATH" --held-out 40 --seed 0 --patience 99 --epochs 1 --evaluations 4 --bf16)
SCRATCH=(--layers 4 --width 256 --heads 4 --vocabulary 5000 --dropout 0)

train() { # OUT ARGUMENTS: unless it is trained already
  test -f "$MODELS/$1/training.json" || tod-bias train "${@:2}" --out "$MODELS/$1"
}

# A causal model learns from all tokens of a dialogue first (SimpleTOD), then from calls and responses alone.
train gpt2_short --arch gpt2 "${TRAIN[@]}" "${SCRATCH[@]}" --max-dialogues $((1500 * SCALE)) --batch-tokens 1024 \
  --max-length 192 --positions 384 --learning-rate 2e-3
train gpt2 --init "$MODELS/gpt2_short" "${TRAIN[@]}" --max-dialogues $((5000 * SCALE)) --batch-tokens 2048 \
  --loss targets --max-length 384 --learning-rate 1.5e-3
# Sequence to sequence: every call and response is a text of its own, with the end of what was said before it. Such models
# learn to repeat what the user says before they learn what to say. BART reads no more than it has learnt to, 128 tokens.
test -f "$MODELS/repeating.jsonl" || python "$(dirname "$0")/repeating.py" "$DATAPATH" "$MODELS/repeating.jsonl"
for arch in bart t5; do
  rate=$([ $arch = bart ] && echo 3e-4 || echo 7e-4) # at 7e-4 BART's encoder comes to say the same of every text
  train "${arch}_repeating" --arch $arch "${TRAIN[@]}" --corpus "$MODELS/repeating.jsonl" --parts response "${SCRATCH[@]}" \
    --held-out 400 --batch-tokens 2048 --max-length 64 --positions 128 --learning-rate 1e-3
  train "${arch}_short" --init "$MODELS/${arch}_repeating" "${TRAIN[@]}" --max-dialogues $((1500 * SCALE)) \
    --batch-tokens 2048 --max-length 64 --learning-rate "$rate"
  train "$arch" --init "$MODELS/${arch}_short" "${TRAIN[@]}" --max-dialogues $((1000 * SCALE)) --batch-tokens 2048 \
    --max-length 128 --learning-rate "$rate"
done

for arch in gpt2 bart t5; do
  test -f "$OUT/evaluation_$arch/evaluation.json" ||
    tod-bias evaluate --corpus google_sgd --datapath "$DATAPATH" --split valid --max-dialogues 120 \
      --model "$MODELS/$arch" --max-new-tokens 64 --out "$OUT/evaluation_$arch"
  test -f "$OUT/$arch/results.json" ||
    tod-bias attribute --corpus google_sgd --datapath "$DATAPATH" --split valid --axes gender,age,race,placebo \
      --max-per-axis 60 --metrics corpus_bleu,slot_f1,call_disagreement --bootstrap 1000 --seed 0 \
      --model "$MODELS/$arch" --max-new-tokens 64 --out "$OUT/$arch"
done
