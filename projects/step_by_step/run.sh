#!/usr/bin/env bash
# Su's grid on Google SGD: GPT-2, BART and T5 of four layers, trained on dialogues of the train split, and SmolLM2 with the
# adapter that reads descriptions. Each is scored (Table 1) and audited on the test split, by the crossed design and by Su's
# draws (Algorithm 1), and the results that README shows are copied into grid/.
#
#   bash run.sh                   every cell, in this order; what is finished is kept, what was interrupted goes on
#   bash run.sh bart smollm2      these models
#   FULL=1 bash run.sh            whole passes over all training dialogues: hours for each model
#   REMAKE=1 bash run.sh bart     trains, scores and audits again
#
# DATAPATH holds google_sgd/{train,dev,test} in ParlAI's layout. TASKMASTER=1 does the same on Taskmaster-2 (DATAPATH/taskmaster2,
# trained on its own train split), and GPT2=DIR audits a pretrained GPT-2 that is fine-tuned from this folder.
set -euo pipefail
DATAPATH=$(cd "${DATAPATH:-.data}" && pwd)
HERE=$(cd "$(dirname "$0")" && pwd)
CORPUS=${TASKMASTER:+taskmaster2}
CORPUS=${CORPUS:-google_sgd}
MODELS=$(mkdir -p "${MODELS:-models/$CORPUS}" && cd "${MODELS:-models/$CORPUS}" && pwd)
OUT=$(mkdir -p "${OUT:-runs/$CORPUS}" && cd "${OUT:-runs/$CORPUS}" && pwd)
KEPT=$HERE/grid
DIALOGUES=${DIALOGUES:-300} # scored
PER_AXIS=${PER_AXIS:-60}    # audited
DRAWS=${DRAWS:-3}           # counterfactuals of a dialogue, in Su's design
mkdir -p "$OUT/training"
for file in "$HERE"/training/*.yaml; do # without a limit of steps, a training is one whole pass
  sed "${FULL:+/^max_steps:/d}" "$file" > "$OUT/training/$(basename "$file")"
done

train() { # NAME OPTIONS: unless it is trained
  test -z "${REMAKE:-}" || rm -rf "${MODELS:?}/$1"
  test -f "$MODELS/$1/training.json" ||
    tod-bias train --seed 0 --epochs 1 --datapath "$DATAPATH" --config "$OUT/training/${CONFIG:-$1}.yaml" "${@:2}" --out "$MODELS/$1"
}

gpt2() { # windows of 192 tokens on every token, then of 320 and whole dialogues on calls and responses only
  if test -n "${GPT2:-}"; then
    train gpt2 --corpus "$CORPUS" --init "$GPT2" --learning-rate 5e-5
  else
    train gpt2_short --corpus "$CORPUS" --arch gpt2 --max-length 192 --learning-rate 2e-3
    train gpt2_middle --corpus "$CORPUS" --init "$MODELS/gpt2_short" --max-length 320 --learning-rate 2e-3
    train gpt2 --corpus "$CORPUS" --init "$MODELS/gpt2_middle" --learning-rate 1.2e-3
  fi
  cell gpt2 "$CORPUS" --pipeline "$MODELS/gpt2" --max-new-tokens 64
}

repeating() { # ARCH: such models learn to repeat what the user says before they learn what to say
  test -f "$OUT/repeating.jsonl" || python "$HERE/repeating.py" "$DATAPATH" "$OUT/repeating.jsonl" "$CORPUS"
  CONFIG=repeating train "$1_repeating" --arch "$1" --corpus "$OUT/repeating.jsonl" --max-length 64 --learning-rate 1e-3
}

answering() { # NAME INIT RATE: calls, responses or both, each a text of its own after the end of what was said before it
  train "$1_short" --corpus "$CORPUS" --init "$2" --max-length 64 --learning-rate "$3"
  train "$1" --corpus "$CORPUS" --init "$MODELS/$1_short" --max-length 128 --learning-rate "$3"
}

bart() {
  repeating bart
  answering bart "$MODELS/bart_repeating" 3e-4 # at 7e-4 its encoder comes to say the same of every text
  # One model for both does not tell at the end of its prompt which of them is asked for, and ends most responses at once.
  train bart_responses --corpus "$CORPUS" --init "$MODELS/bart" --max-length 64 --learning-rate 3e-4
  cell bart "$CORPUS" --api-call-model "$MODELS/bart" --response-model "$MODELS/bart_responses" --max-new-tokens 64
}

t5() { # a model each for calls and responses, for the same reason
  repeating t5
  answering t5_calls "$MODELS/t5_repeating" 7e-4
  answering t5_responses "$MODELS/t5_repeating" 7e-4
  cell t5 "$CORPUS" --api-call-model "$MODELS/t5_calls" --response-model "$MODELS/t5_responses" --max-new-tokens 64
}

smollm2() { # a pretrained model of 135 million weights; the adapter is kept in this folder
  test -f "$MODELS/smollm2/model.safetensors" || python "$HERE/../tool_agents/smollm2.py" "$MODELS/smollm2"
  test -f "$MODELS/described/model.safetensors" ||
    python "$HERE/../tool_agents/with_adapter.py" "$MODELS/smollm2" "$HERE/adapter_sgd_described" "$MODELS/described"
  DIALOGUES=${SMOLLM2_DIALOGUES:-60} PER_AXIS=${SMOLLM2_PER_AXIS:-15} \
    cell smollm2 "${CORPUS}_described" --pipeline "$MODELS/described" --max-new-tokens 96
}

cell() { # NAME CORPUS SYSTEM: scores, audits and keeps the results of one model
  local data=(--corpus "$2" --datapath "$DATAPATH" --split test "${@:3}" --seed 0)
  local audit=(--axes gender,age,race --metrics corpus_bleu,slot_f1,call_disagreement --max-per-axis "$PER_AXIS" --allow-unmeasured)
  test -z "${REMAKE:-}" || rm -rf "${OUT:?}/$1"
  test -f "$OUT/$1/scores/evaluation.json" || tod-bias evaluate "${data[@]}" --max-dialogues "$DIALOGUES" --out "$OUT/$1/scores"
  test -f "$OUT/$1/crossed/results.json" || tod-bias attribute "${data[@]}" "${audit[@]}" --out "$OUT/$1/crossed"
  test -f "$OUT/$1/draws/results.json" ||
    tod-bias attribute "${data[@]}" "${audit[@]}" --design draws --draws "$DRAWS" --order db,api_call,response --out "$OUT/$1/draws"
  (cd "$HERE" && python study.py keep "$1" "$OUT/$1" "$MODELS" "$KEPT")
}

for model in ${@:-gpt2 bart t5 smollm2}; do
  "$model"
done
python "$HERE/study.py" write
