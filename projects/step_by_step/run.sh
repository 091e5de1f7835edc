#!/usr/bin/env bash
# The study of this folder, from nothing: DATAPATH holds google_sgd/{train,dev} in ParlAI's layout, and star/.
set -euo pipefail
DATAPATH=${DATAPATH:-.data}
MODELS=${MODELS:-models/sgd}
OUT=${OUT:-runs/step_by_step}
SGD=(--arch gpt2 --corpus google_sgd --datapath "$DATAPATH" --held-out 100 --seed 0 --bf16 --patience 99)
AUDIT=(--axes gender,age,race,placebo --metrics corpus_bleu,slot_f1,call_disagreement --bootstrap 1000 --seed 0)

# Four layers of 256, from scratch. A model this small learns where to look in short texts and small batches first: in
# windows of 192 tokens on every token (SimpleTOD), then of 320 and of whole dialogues on calls and responses only.
tod-bias train "${SGD[@]}" --layers 4 --width 256 --heads 4 --vocabulary 5000 --dropout 0 --positions 1024 \
  --max-length 192 --batch-tokens 1024 --learning-rate 2e-3 --epochs 1 --max-steps 3124 --evaluations 20 \
  --out "$MODELS/short"
tod-bias train "${SGD[@]}" --init "$MODELS/short" --loss targets \
  --max-length 320 --batch-tokens 1024 --learning-rate 2e-3 --epochs 1 --max-steps 1434 --evaluations 16 \
  --out "$MODELS/middle"
tod-bias train "${SGD[@]}" --init "$MODELS/middle" --loss targets \
  --batch-tokens 2048 --learning-rate 1.2e-3 --epochs 1 --evaluations 8 --out "$MODELS/whole"

tod-bias evaluate --corpus google_sgd --datapath "$DATAPATH" --split valid --max-dialogues 300 \
  --model "$MODELS/whole" --max-new-tokens 96 --out "$OUT/evaluation"

# Two processes of one thread each on two cores; on a GPU: accelerate launch -m tod_bias.attribute …
OMP_NUM_THREADS=1 torchrun --nproc_per_node 2 -m tod_bias.attribute --corpus google_sgd --datapath "$DATAPATH" \
  --split valid "${AUDIT[@]}" --max-per-axis 150 --model "$MODELS/whole" --max-new-tokens 96 --out "$OUT/attribution"

# A pretrained model: SmolLM2-135M-Instruct (from the package registry) with the adapter that is kept here. To train it
# again (3,000 dialogues once, 1.65 million tokens of text; six hours of a busy core without AMX, resumable):
#   tod-bias train --init "$MODELS/smollm2" --corpus google_sgd --datapath "$DATAPATH" --max-dialogues 3040 --held-out 40 \
#     --loss targets --max-length 1024 --batch-tokens 2048 --lora 16 --learning-rate 2e-3 --epochs 1 --evaluations 8 \
#     --patience 99 --seed 0 --out adapter
HERE=$(cd "$(dirname "$0")" && pwd)
test -f "$MODELS/smollm2/model.safetensors" || python "$HERE/../tool_agents/smollm2.py" "$MODELS/smollm2"

pretrained() { # MODEL ADAPTER NEW_MODEL CORPUS DIALOGUES PER_AXIS RUN: adds the adapter, evaluates, attributes
  test -f "$MODELS/$3/model.safetensors" ||
    python "$HERE/../tool_agents/with_adapter.py" "$MODELS/$1" "$HERE/$2" "$MODELS/$3"
  tod-bias evaluate --corpus "$4" --datapath "$DATAPATH" --split valid --max-dialogues "$5" \
    --model "$MODELS/$3" --max-new-tokens 96 --out "$OUT/evaluation_$7"
  tod-bias attribute --corpus "$4" --datapath "$DATAPATH" --split valid "${AUDIT[@]}" \
    --max-per-axis "$6" --model "$MODELS/$3" --max-new-tokens 96 --out "$OUT/attribution_$7"
}

pretrained smollm2 adapter sgd google_sgd 120 30 smollm2
tod-bias report "$OUT/attribution" "$OUT/attribution_smollm2" # Fig. 4

# Cross-trained: having learnt SGD it goes on with STAR (DATAPATH/star), real people's dialogues. The adapter is kept, too; to
# train it again (600 dialogues once, 215 steps, 50 minutes of a core without AMX):
#   tod-bias train --init "$MODELS/sgd" --corpus star --datapath "$DATAPATH" --max-dialogues 620 --held-out 20 \
#     --loss targets --max-length 1024 --batch-tokens 2048 --lora 16 --learning-rate 2e-3 --epochs 1 --evaluations 4 \
#     --patience 99 --seed 0 --out adapter_star
pretrained sgd adapter_star star star 60 226 star

# Plain on STAR: the same training without SGD before it (33 minutes of two threads).
#   tod-bias train --init "$MODELS/smollm2" … as above … --out adapter_star_plain
pretrained smollm2 adapter_star_plain star_plain star 60 226 star_plain
tod-bias compare "$OUT/attribution_star_plain" "$OUT/attribution_star" --out "$OUT/beginnings_compared"

# Pre-finetuned: having learnt SGD it goes on with τ-bench (106 steps), and then with STAR (half an hour in bfloat16 on two
# cores with AMX that other work shared).
#   tod-bias train --init "$MODELS/sgd" --corpus tau_bench --max-dialogues 60 --held-out 6 … as above … --bf16 \
#     --out adapter_tau_bench_after_sgd
#   tod-bias train --init "$MODELS/tau_bench_after_sgd" --corpus star … as above … --bf16 --out adapter_star_pre
test -f "$MODELS/tau_bench_after_sgd/model.safetensors" || python "$HERE/../tool_agents/with_adapter.py" \
  "$MODELS/sgd" "$HERE/adapter_tau_bench_after_sgd" "$MODELS/tau_bench_after_sgd"
pretrained tau_bench_after_sgd adapter_star_pre star_pre star 60 226 star_pre
for other in star_plain star; do
  tod-bias compare "$OUT/attribution_$other" "$OUT/attribution_star_pre" --out "$OUT/star_pre_after_$other"
done

# SGD from three beginnings: the pretrained model, the one that has learnt STAR, and that one having learnt τ-bench too (54
# runs of a tool agent, 106 steps) learn 600 dialogues of SGD, drawn by domain (258 steps, about an hour of one thread each).
#   tod-bias train --init "$MODELS/smollm2" --corpus google_sgd … as above … --out adapter_sgd_short
#   tod-bias train --init "$MODELS/star_plain" --corpus google_sgd … as above … --out adapter_sgd_after_star
#   tod-bias train --init "$MODELS/star_plain" --corpus tau_bench --max-dialogues 60 --held-out 6 … as above … \
#     --out adapter_tau_bench_after_star
#   tod-bias train --init "$MODELS/tau_bench_after_star" --corpus google_sgd … as above … --out adapter_sgd_pre
pretrained smollm2 adapter_sgd_short sgd_short google_sgd 60 20 sgd_short
pretrained star_plain adapter_sgd_after_star sgd_after_star google_sgd 60 20 sgd_after_star
test -f "$MODELS/tau_bench_after_star/model.safetensors" || python "$HERE/../tool_agents/with_adapter.py" \
  "$MODELS/star_plain" "$HERE/adapter_tau_bench_after_star" "$MODELS/tau_bench_after_star"
pretrained tau_bench_after_star adapter_sgd_pre sgd_pre google_sgd 60 20 sgd_pre
for other in sgd_after_star sgd_pre; do
  tod-bias compare "$OUT/attribution_sgd_short" "$OUT/attribution_$other" --out "$OUT/$other"_compared
done
tod-bias compare "$OUT/attribution_sgd_after_star" "$OUT/attribution_sgd_pre" --out "$OUT/beginnings_sgd_compared"

# Whom the corpora mention (Fig. 2).
tod-bias words --corpus google_sgd,star,tau_bench --datapath "$DATAPATH" --split train --axes gender,age,race --out "$OUT/words"
