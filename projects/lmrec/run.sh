#!/bin/sh
# Trains LMRec on the bundled sample, scores, audits and mitigates it, and attributes its bias in a pipeline.
set -e
cd "$(dirname "$0")"
size="--hidden 128 --vocabulary 2000 --max-length 64"
tod-bias recommend statistics --out runs/statistics
tod-bias recommend train $size --out runs/lmrec
tod-bias recommend train $size --mask --out runs/lmrec_masked
tod-bias recommend evaluate --model runs/lmrec --out runs/quality
tod-bias recommend audit --model runs/lmrec --out runs/audit
tod-bias recommend mitigate --model runs/lmrec --masked-model runs/lmrec_masked --out runs/mitigation
python dialogues.py runs/lmrec runs/dialogues.jsonl
for pipeline in fair_response curt_response; do
  tod-bias attribute --pipeline $pipeline.yaml --corpus runs/dialogues.jsonl --axes names_race,names_gender --draws 1 \
    --order recommend,lookup,response --out runs/attribution_$pipeline
done
