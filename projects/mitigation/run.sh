#!/bin/sh
# The demo fixed: by guards and rows without training (two minutes of one core), on other dialogues (three),
# and by training on augmented data (five).
set -e
cd "$(dirname "$0")"
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
runs=${RUNS:-runs}
demo=$(python -c 'import tod_bias, pathlib; print(pathlib.Path(tod_bias.__file__).parent / "data" / "demo")')

tod-bias attribute --out "$runs/demo" --quiet
tod-bias mitigate "$runs/demo" --references gold --guards canonical,vote,neutral --out "$runs/mitigation"
mkdir -p "$runs/pipeline"
cp fixed.yaml "$runs/pipeline/"
cp -R "$demo/api_call" "$demo/response" "$runs/pipeline/"
cat "$demo/database.jsonl" "$runs/mitigation/missing.jsonl" > "$runs/pipeline/database.jsonl"
tod-bias attribute --pipeline "$runs/pipeline/fixed.yaml" --out "$runs/fixed" --quiet
tod-bias compare "$runs/demo" "$runs/fixed" --metrics corpus_bleu --margin 0.02 --out "$runs/compared"

# Other dialogues than those that the fixes were chosen on (three minutes).
test -f "$runs/others.jsonl" || python others.py "$runs/others.jsonl"
tod-bias attribute --corpus "$runs/others.jsonl" --pipeline "$runs/pipeline/fixed.yaml" --metrics 'corpus_bleu,fails:*' --margin 0.02 --out "$runs/others" --quiet

# Training: the demo's own models go on from where they are, on training dialogues with the bias planted, with and without
# their counterfactual copies.
test -f "$runs/planted/response.jsonl" || python planted.py "$runs/planted"
for part in response:gender api_call:age; do
  name=${part%:*}
  axis=${part#*:}
  for kind in plain augmented; do
    out=$runs/$name-$kind
    test $kind = plain && more= || more="--augment $axis"
    test -f "$out/training.json" || tod-bias train $more --init "$demo/$name" --corpus "$runs/planted/$name.jsonl" --config $name.yaml \
      --epochs 1 --learning-rate 1e-3 --max-length 512 --out "$out" --quiet
    for stage in api_call response; do
      test $stage = $name && echo "$(cd "$out" && pwd)" || echo "$demo/$stage"
    done > "$out/models.txt"
    { echo "stages:"
      echo "  api_call: {stage: 'tod_bias.stages:ApiCall', model: $(sed -n 1p "$out/models.txt"), max_new_tokens: 48}"
      echo "  db: {stage: 'tod_bias.stages:LookupDb', table: $demo/database.jsonl}"
      echo "  response: {stage: 'tod_bias.stages:Response', model: $(sed -n 2p "$out/models.txt"), max_new_tokens: 48}"
    } > "$out/pipeline.yaml"
    tod-bias attribute --pipeline "$out/pipeline.yaml" --axes $axis,placebo --out "$runs/$name-$kind-run"
  done
  tod-bias compare "$runs/$name-plain-run" "$runs/$name-augmented-run" --metrics corpus_bleu --margin 0.02 --out "$runs/$name-compared"
done
