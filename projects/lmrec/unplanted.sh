#!/bin/sh
# What pretraining alone brings: LMRec on reviews in which nothing is planted, from MiniLM's weights and from random ones,
# and a small encoder that learns from these reviews alone (a model as large learns nothing from so few);
# six cities, two seeds. About two hours of one core; every step goes on where it stopped.
set -e
cd "$(dirname "$0")"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
cities="Alderton Birchley Cedarham Duneford Elmbury Fernside"
options() { for city in $cities; do printf -- "--%s %s " "$1" "$2$city$3"; done; }
runs=${RUNS:-runs/unplanted}
train="tod-bias recommend train --min-reviews 30 --quiet"
tuned="$train --max-length 64 --learning-rate 2e-4 --epochs 12 --patience 3"

test -d "$runs/models/pretrained" || python minilm.py "$runs/models"
test -f "$runs/reviews/Fernside.csv" ||
  tod-bias recommend sample --no-planted --venues 48 --reviews 40 $(options city) --out "$runs/reviews"
for seed in 0 1; do
  for city in $cities; do
    for init in pretrained random; do
      test -f "$runs/$init-$seed/$city/training.json" || $tuned --init "$runs/models/$init" --seed $seed \
        --reviews "$runs/reviews/$city.csv" --out "$runs/$init-$seed/$city"
    done
    test -f "$runs/scratch-$seed/$city/training.json" || $train --epochs 60 --seed $seed \
      --reviews "$runs/reviews/$city.csv" --out "$runs/scratch-$seed/$city"
    test $seed = 1 || test -f "$runs/masked-$seed/$city/training.json" || $tuned --mask --init "$runs/models/pretrained" \
      --seed $seed --reviews "$runs/reviews/$city.csv" --out "$runs/masked-$seed/$city"
  done
done
for kind in pretrained-0 random-0 scratch-0 pretrained-1 random-1 scratch-1 masked-0; do
  test -f "$runs/audit-$kind/audit.json" ||
    tod-bias recommend audit $(options model "$runs/$kind/") --out "$runs/audit-$kind" --quiet
  test -f "$runs/quality-$kind/quality.json" ||
    tod-bias recommend evaluate $(options model "$runs/$kind/") $(options reviews "$runs/reviews/" .csv) \
      --out "$runs/quality-$kind" --quiet
done
python pretraining.py "$runs"
