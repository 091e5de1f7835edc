#!/usr/bin/env bash
# The study of this folder, from nothing: DATAPATH holds star/. Every step goes on where it stopped.
set -euo pipefail
STUDY=$(cd "$(dirname "$0")" && pwd)
DATAPATH=${DATAPATH:-.data}
MODELS=${MODELS:-models}
OUT=${OUT:-runs/tool_agents}
PORT=${PORT:-8123}
export PYTHONPATH=$STUDY OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
mkdir -p "$OUT" "$MODELS"

test -f "$MODELS/smollm2/model.safetensors" || python "$STUDY/smollm2.py" "$MODELS/smollm2"
python "$STUDY/star_dialogues.py" "$DATAPATH" "$OUT"

# The adapter comes with the study. To train it again (300 dialogues of the train split, half an hour on one core):
#   tod-bias train --init "$MODELS/smollm2" --format chat --chat-template chatml --corpus star_dialogues:single \
#     --datapath "$DATAPATH" --tools "$OUT/tools.json" --max-dialogues 320 --held-out 20 --max-length 1024 \
#     --batch-tokens 1024 --lora 16 --learning-rate 2e-3 --epochs 1 --evaluations 6 --patience 99 --seed 0 --out adapter
test -f "$MODELS/star/model.safetensors" || python "$STUDY/with_adapter.py" "$MODELS/smollm2" "$STUDY/adapter" "$MODELS/star"

# Two axes of names and their placebo, on tasks that the model has never seen.
tod-bias words --corpus star_dialogues:named --datapath "$DATAPATH" --split test --axes names_gender,names_race \
  --out "$OUT/words"
test -f "$OUT/star.sqlite" || tod-bias database --corpus star_dialogues:named --datapath "$DATAPATH" --splits test \
  --out "$OUT/star.sqlite"
sed "s|127.0.0.1:8123|127.0.0.1:$PORT|; s|models/star|$MODELS/star|" "$STUDY/assistant.yaml" > "$OUT/assistant.yaml"
transformers serve "$MODELS/star" --host 127.0.0.1 --port "$PORT" --device cpu > "$OUT/server.log" 2>&1 &
trap 'kill %1' EXIT
until curl -sf "http://127.0.0.1:$PORT/health" > /dev/null; do kill -0 %1 && sleep 1; done
tod-bias attribute --corpus star_dialogues:named --datapath "$DATAPATH" --split test --pipeline "$OUT/assistant.yaml" \
  --axes names_gender,names_race,placebo --max-per-axis 10 \
  --metrics corpus_bleu,slot_f1,call_disagreement,disagreement --bootstrap 1000 --seed 0 --out "$OUT/attribution"

# The same with a guard before the policy, which then hears every user by one name; what the first run was answered is kept.
sed 's|^\( *\)stage: "tod_bias.stages:ToolCalls"|&\n\1guard: canonical\n\1axes: names_gender|' "$OUT/assistant.yaml" > "$OUT/guarded.yaml"
mkdir -p "$OUT/guarded"
test -f "$OUT/guarded/cache.sqlite" || cp "$OUT/attribution/cache.sqlite" "$OUT/guarded/"
tod-bias attribute --corpus star_dialogues:named --datapath "$DATAPATH" --split test --pipeline "$OUT/guarded.yaml" \
  --axes names_gender,names_race,placebo --max-per-axis 10 \
  --metrics corpus_bleu,slot_f1,call_disagreement,disagreement --bootstrap 1000 --seed 0 --out "$OUT/guarded"
tod-bias compare "$OUT/attribution" "$OUT/guarded" --out "$OUT/compared"
