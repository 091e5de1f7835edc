#!/usr/bin/env bash
# The study of this folder, from nothing: results of seed 0 and a table over seeds, strengths and a control attribute.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
OUT=${OUT:-runs/attribute_association}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

for seed in 0 1 2; do
  python "$HERE/case_study.py" audit "$OUT/seed_$seed" --seed "$seed"
done
for strength in 0 0.2; do
  python "$HERE/case_study.py" audit "$OUT/strength_$strength" --strength "$strength"
done

# The control: the same recommender, users split by an attribute on which nothing depends.
python "$HERE/case_study.py" train "$OUT/model"
tod-bias associate --embeddings "$OUT/model/embeddings.npz" --interactions "$OUT/model/interactions.csv" \
  --users "$OUT/model/users.csv" --items "$OUT/model/items.csv" \
  --attribute region=north,south --test genre=crime,sport --quiet --out "$OUT/control"

python "$HERE/summary.py" "$OUT" > "$OUT/summary.md"
cat "$OUT/summary.md"
