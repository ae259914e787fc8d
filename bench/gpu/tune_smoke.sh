#!/usr/bin/env bash
# Tunes a few subjects on the GPU of this machine for some seconds each and says how it went: trials a
# second, where the time went, what was refused, the result against the static choice; then goes on
# from the log, which must measure nothing twice; then the lessons on GPUs.
#
#   bench/gpu/tune_smoke.sh BIN [SECONDS [SUBJECT...]]     (20; softmax and matmul)
#
# BIN: the folder with the programs, build/bin or a bundle's. Logs go to $OUT, or a temporary folder.
# Exit status 1: something failed.
set -u

bin=${1:?the folder of the heddle program}
seconds=${2:-20}
shift $(($# < 2 ? $# : 2))
subjects=("$@")
((${#subjects[@]} > 0)) || subjects=(softmax:4096x4096 matmul:1024x1024x1024)
out=${OUT:-$(mktemp -d)}
status=0

run() {
  echo "\$ $*"
  "$@" || { echo "FAILED with status $?: $*"; status=1; }
  echo
}

for subject in "${subjects[@]}"; do
  name=$(tr -c 'a-zA-Z0-9\n' _ <<< "$subject")
  tune=("$bin/heddle" tune "$subject" --target cuda --log "$out/$name.jsonl" --no-warm-start)
  run "${tune[@]}" --budget "${seconds}s" --json "$out/$name.json"
  run "${tune[@]}" --budget 5s --trials 40
  if [[ -s $out/$name.jsonl ]]; then
    # Races measure again, on purpose.
    twice=$(grep -v '"protocol":"race' "$out/$name.jsonl" | grep -o '"steps":{.*}' |
      sed 's/,"seconds".*//' | sort | uniq -d | wc -l)
    echo "$subject: $(wc -l < "$out/$name.jsonl") records, $twice measured twice"
    ((twice == 0)) || status=1
  fi
  HEDDLE_LOG_FILE=$out/$name.jsonl run "$bin/heddle" explain "$subject" --target cuda \
    --show schedule,resources
done

for lesson in tutorial_08_a_gpu_kernel tutorial_06_tune_a_network; do
  [[ -x $bin/$lesson ]] || continue
  arguments=("$seconds")
  [[ $lesson == *network ]] && arguments+=(cuda)
  run "$bin/$lesson" "${arguments[@]}"
done
exit $status
