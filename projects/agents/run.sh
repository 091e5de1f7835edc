#!/usr/bin/env bash
# The study of this folder, from nothing: DATAPATH holds star/. Every step goes on where it stopped.
set -euo pipefail
STUDY=$(cd "$(dirname "$0")" && pwd)
DATAPATH=$(realpath "${DATAPATH:-.data}")
MODELS=${MODELS:-models}
OUT=${OUT:-runs/agents}
PORT=8200 # of process.yaml
PER_AXIS=${PER_AXIS:-20}
export PYTHONPATH=$STUDY:$STUDY/../tool_agents:$STUDY/../step_by_step${PYTHONPATH:+:$PYTHONPATH} OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
mkdir -p "$OUT" "$MODELS"
OUT=$(realpath "$OUT")

# The model of projects/tool_agents: SmolLM2-135M with an adapter that has learnt STAR's calls.
test -f "$MODELS/smollm2/model.safetensors" || python "$STUDY/../tool_agents/smollm2.py" "$MODELS/smollm2"
test -f "$MODELS/star/model.safetensors" ||
  python "$STUDY/../tool_agents/with_adapter.py" "$MODELS/smollm2" "$STUDY/../tool_agents/adapter" "$MODELS/star"

python "$STUDY/../tool_agents/star_dialogues.py" "$DATAPATH" "$OUT"
test -f "$OUT/star.sqlite" || tod-bias export --corpus star_dialogues:named --datapath "$DATAPATH" --split test \
  --database "$OUT/star.sqlite"

python "$STUDY/model_server.py" "$MODELS/star" "$PORT" "$OUT/replies.jsonl" > "$OUT/server.log" 2>&1 &
trap 'kill %1' EXIT
until curl -sf "http://127.0.0.1:$PORT/v1" > /dev/null; do kill -0 %1 && sleep 1; done
export TOOLS=$OUT/test_tools.json DATABASE=$OUT/star.sqlite MODEL_URL=http://127.0.0.1:$PORT/v1
cd "$STUDY"
python run.py "$DATAPATH" "$OUT" "$PER_AXIS"
