#!/usr/bin/env bash
# GPT-2, BART and T5 from scratch, four layers of 256 (and four of a decoder): about twenty minutes each on two cores with
# AMX, in bfloat16; short texts first. Every schedule ends with its training. SCALE=10 takes ten times as many dialogues.
# DATAPATH holds google_sgd/{train,dev} in ParlAI's layout. What is interrupted goes on with the same command.
set -euo pipefail
DATAPATH=${DATAPATH:-.data}
MODELS=${MODELS:-models/architectures}
OUT=${OUT:-runs/architectures}
SCALE=${SCALE:-1}
TRAIN=(--datapath "$DATAPATH" --seed 0 --patience 99 --epochs 1 --evaluations 4 --bf16)
SGD=(--corpus google_sgd --held-out 40 "${TRAIN[@]}")
SCRATCH=(--layers 4 --width 256 --heads 4 --vocabulary 5000 --dropout 0)

train() { # OUT ARGUMENTS: unless it is trained already
  test -f "$MODELS/$1/training.json" || tod-bias train "${@:2}" --out "$MODELS/$1"
}

# A causal model learns from all tokens of a dialogue first (SimpleTOD), then from calls and responses alone.
train gpt2_short --arch gpt2 "${SGD[@]}" "${SCRATCH[@]}" --max-dialogues $((1500 * SCALE)) --batch 6 \
  --max-length 192 --positions 384 --learning-rate 2e-3
train gpt2 --init "$MODELS/gpt2_short" "${SGD[@]}" --max-dialogues $((5000 * SCALE)) --batch 6 \
  --loss targets --max-length 384 --learning-rate 1.5e-3
# Sequence to sequence: every call and response is a text of its own, with the end of what was said before it. Such models
# learn to repeat what the user says before they learn what to say. BART reads no more than it has learnt to, 128 tokens.
test -f "$MODELS/repeating.jsonl" || python "$(dirname "$0")/repeating.py" "$DATAPATH" "$MODELS/repeating.jsonl"
for arch in bart t5; do
  train "${arch}_repeating" --arch $arch "${TRAIN[@]}" --corpus "$MODELS/repeating.jsonl" --parts response "${SCRATCH[@]}" \
    --held-out 400 --batch 32 --max-length 64 --positions 128 --learning-rate 1e-3
done
answering() { # NAME REPEATING RATE PARTS: goes on with calls, responses or both
  train "$1_short" --init "$MODELS/$2" "${SGD[@]}" --max-dialogues $((1500 * SCALE)) --parts "$4" \
    --batch 32 --max-length 64 --learning-rate "$3"
  train "$1" --init "$MODELS/$1_short" "${SGD[@]}" --max-dialogues $((1000 * SCALE)) --parts "$4" \
    --batch 16 --max-length 128 --learning-rate "$3"
}
answering bart bart_repeating 3e-4 api_call,response # at 7e-4 its encoder comes to say the same of every text
# One T5 for both does not tell at the end of its prompt which of them is asked for, and ends most responses at once.
answering t5_calls t5_repeating 7e-4 api_call
answering t5_responses t5_repeating 7e-4 response

audit() { # NAME MODELS
  test -f "$OUT/evaluation_$1/evaluation.json" ||
    tod-bias evaluate --corpus google_sgd --datapath "$DATAPATH" --split valid --max-dialogues 120 \
      "${@:2}" --max-new-tokens 64 --out "$OUT/evaluation_$1"
  test -f "$OUT/$1/results.json" ||
    tod-bias attribute --corpus google_sgd --datapath "$DATAPATH" --split valid --axes gender,age,race,placebo \
      --max-per-axis 60 --metrics corpus_bleu,slot_f1,call_disagreement --bootstrap 1000 --seed 0 \
      "${@:2}" --max-new-tokens 64 --out "$OUT/$1"
}
audit gpt2 --model "$MODELS/gpt2"
audit bart --model "$MODELS/bart"
audit t5 --api-call-model "$MODELS/t5_calls" --response-model "$MODELS/t5_responses"
