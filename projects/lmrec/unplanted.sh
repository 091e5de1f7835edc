#!/bin/sh
# What pretraining alone brings: LMRec on reviews in which nothing is planted, from MiniLM's weights and from random ones,
# and a small encoder that learns from these reviews alone (a model as large learns nothing from so few);
# six cities, two seeds. Hours of one core; every step goes on where it stopped.
set -e
cd "$(dirname "$0")"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
cities="Alderton Birchley Cedarham Duneford Elmbury Fernside"
options() { for city in $cities; do printf -- "--%s %s " "$1" "$2$city$3"; done; }
runs=${RUNS:-runs/unplanted}

test -d "$runs/models/pretrained" || python minilm.py "$runs/models"
test -f "$runs/reviews/Fernside.csv" ||
  python sample.py --no-planted --venues 48 --reviews 40 $(options city) --out "$runs/reviews"
trained() { # folder, options …
  folder=$1
  shift
  for city in $cities; do
    test -f "$runs/$folder/$city/training.json" ||
      tod-bias recommend train --min-reviews 30 --quiet "$@" --reviews "$runs/reviews/$city.csv" --out "$runs/$folder/$city"
  done
}
tuned="--max-length 64 --learning-rate 2e-4 --epochs 12 --config tuned.yaml"
trained pretrained-0 $tuned --init "$runs/models/pretrained" --seed 0
trained random-0 $tuned --init "$runs/models/random" --seed 0
trained masked-0 $tuned --init "$runs/models/pretrained" --seed 0 --mask
trained scratch-0 --epochs 60 --seed 0
trained scratch-1 --epochs 60 --seed 1
trained pretrained-1 $tuned --init "$runs/models/pretrained" --seed 1
# Cities that begin with the same weights agree for that reason alone: two draws of small ones, which were taught nothing.
learning="--max-length 64 --learning-rate 2e-3 --epochs 30 --config taught.yaml"
for draw in 0 1; do
  trained shared-$draw $learning --init "$runs/models/small-$draw" --seed $draw
  trained shared_masked-$draw $learning --init "$runs/models/small-$draw" --seed $draw --mask
  test -d "$runs/models/own-$draw" || python small.py "$runs" # with a tokenizer made of all cities' reviews
  trained own-$draw $learning --init "$runs/models/own-$draw" --seed $draw
  trained own_masked-$draw $learning --init "$runs/models/own-$draw" --seed $draw --mask
done

shared="shared-0 shared-1 shared_masked-0 shared_masked-1 own-0 own-1 own_masked-0 own_masked-1"
for kind in pretrained-0 random-0 masked-0 scratch-0 scratch-1 pretrained-1 $shared; do
  test -f "$runs/audit-$kind/audit.json" ||
    tod-bias recommend audit $(options model "$runs/$kind/") --out "$runs/audit-$kind" --quiet
  test -f "$runs/quality-$kind/quality.json" ||
    tod-bias recommend evaluate $(options model "$runs/$kind/") $(options reviews "$runs/reviews/" .csv) --min-reviews 30 \
      --out "$runs/quality-$kind" --quiet
done
python pretraining.py "$runs"
