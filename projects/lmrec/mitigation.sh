#!/bin/sh
# Masks, augmentation and re-ranking over seven small cities, and masks on reviews that name anybody.
# Every step goes on where it stopped.
set -e
cd "$(dirname "$0")"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
cities="Sampleton Exampleton Modelby Testford Trialham Drawnville Mocking"
some="Sampleton Exampleton Modelby"
options() { for city in $3; do printf -- "--%s %s " "$1" "$2$city$4"; done; }
paths() { for city in $cities; do printf "%s " "$1$city$2"; done; }
runs=${RUNS:-runs/mitigation}
size="--config mitigation.yaml --max-length 48 --quiet"

python sample.py --venues 48 --reviews 100 $(options city "" "$cities" "") --out "$runs/reviews"
python anybody.py write $(paths "$runs/reviews/" .csv) --out "$runs/anybody"
trained() { # folder, reviews, cities, options …
  folder=$1 reviews=$2 where=$3
  shift 3
  for city in $where; do
    test -f "$runs/$folder/$city/training.json" ||
      tod-bias recommend train $size "$@" --reviews "$runs/$reviews/$city.csv" --out "$runs/$folder/$city"
  done
}
trained plain reviews "$cities"
trained masked reviews "$cities" --mask
trained augmented reviews "$some" --augment --epochs 10
trained anybody_plain anybody "$cities"
trained anybody_masked anybody "$cities" --mask
for city in $cities; do
  test -f "$runs/anybody_paper/$city/training.json" ||
    python anybody.py train "$runs/anybody/$city.csv" --config mitigation.yaml --max-length 48 --out "$runs/anybody_paper/$city"
done
tod-bias recommend mitigate $(options model "$runs/plain/" "$cities" "") $(options masked-model "$runs/masked/" "$cities" "") \
  $(options reviews "$runs/reviews/" "$cities" .csv) --out "$runs/seven"
tod-bias recommend mitigate $(options model "$runs/plain/" "$some" "") $(options masked-model "$runs/masked/" "$some" "") \
  $(options augmented-model "$runs/augmented/" "$some" "") $(options reviews "$runs/reviews/" "$some" .csv) --out "$runs/three"
# Three cities with five seeds each: of a city the folders need names of their own.
seeds="0 1 2 3 4"
of_seeds() { for city in $some; do for seed in $seeds; do printf -- "--%s %s " "$1" "$runs/seeds/$2/$city-$seed"; done; done; }
for seed in $seeds; do
  for city in $some; do
    for kind in plain masked; do
      test $kind = masked && mask=--mask || mask=
      out=$runs/seeds/$kind/$city-$seed
      test -f "$out/training.json" ||
        tod-bias recommend train $size $mask --seed $seed --reviews "$runs/reviews/$city.csv" --out "$out"
    done
  done
done
tod-bias recommend mitigate $(of_seeds model plain) $(of_seeds masked-model masked) \
  $(options reviews "$runs/reviews/" "$some" .csv) --out "$runs/five_seeds"
python anybody.py measure "$runs/anybody" --plain $(paths "$runs/anybody_plain/" "") \
  --masked $(paths "$runs/anybody_masked/" "") --paper $(paths "$runs/anybody_paper/" "") --out anybody.json
