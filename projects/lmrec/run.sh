#!/bin/sh
# Trains LMRec on the bundled sample, a model a city, scores, audits and mitigates it, and attributes its bias in a
# pipeline. About 20 minutes on two cores.
set -e
cd "$(dirname "$0")"
export OMP_NUM_THREADS=1
cities="Sampleton Exampleton Modelby Testford Trialham Drawnville Mocking"
options() { for city in $cities; do printf -- "--%s %s " "$1" "$2$city$3"; done; }
size="--config sample.yaml --max-length 64"

python sample.py $(options city) --out runs/reviews
python review_statistics.py runs/reviews/*.csv --out runs/statistics
echo $cities | tr ' ' '\n' | xargs -P 2 -I CITY tod-bias recommend train $size --reviews runs/reviews/CITY.csv \
  --out runs/lmrec/CITY
tod-bias recommend train $size --mask --reviews runs/reviews/Sampleton.csv --out runs/lmrec_masked
tod-bias recommend evaluate $(options model runs/lmrec/) $(options reviews runs/reviews/ .csv) --out runs/quality
tod-bias recommend audit --model runs/lmrec/Sampleton --out runs/audit_one_city
tod-bias recommend audit $(options model runs/lmrec/) --out runs/audit
tod-bias recommend mitigate --model runs/lmrec/Sampleton --masked-model runs/lmrec_masked \
  --reviews runs/reviews/Sampleton.csv --out runs/mitigation
python dialogues.py runs/lmrec/Sampleton runs/dialogues.jsonl
for pipeline in fair_response curt_response; do
  tod-bias attribute --pipeline $pipeline.yaml --corpus runs/dialogues.jsonl --axes names_race,names_gender --design draws --draws 1 \
    --order recommend,lookup,response --out runs/attribution_$pipeline
done

# Mended by the commands for dialogue systems: reviews as dialogues, guards tried, Shen's masking compared with none.
python reviewed.py runs/lmrec/Sampleton runs/reviews/Sampleton.csv runs/reviewed.jsonl
sed 's/Sampleton}/Sampleton, neutralise: true}/' fair_response.yaml > runs/masked.yaml
for pipeline in fair_response.yaml runs/masked.yaml; do
  tod-bias attribute --pipeline $pipeline --corpus runs/reviewed.jsonl --axes names_race,names_gender,placebo \
    --order recommend,lookup,response --out runs/reviewed_$(basename $pipeline .yaml)
done
tod-bias mitigate runs/reviewed_fair_response --references gold --guards canonical,vote,neutral --pipeline fair_response.yaml \
  --corpus runs/reviewed.jsonl --out runs/repair || true
tod-bias compare runs/reviewed_fair_response runs/reviewed_masked --margin 0.02 --out runs/compared
