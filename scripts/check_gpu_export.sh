#!/usr/bin/env bash
# Does an exported network compute on a GPU what it computes on a CPU?
#
#   scripts/check_gpu_export.sh make model.onnx FOLDER [TARGET [SIZES]]   # where Heddle is; needs no GPU
#   scripts/check_gpu_export.sh run FOLDER                        # where the GPU is; needs no Heddle
#
# make exports the model for the CPU and for the GPU (TARGET: "cuda -gpu=h200" if left out),
# compiles the C programs, and runs the CPU's library for the reference. FOLDER then has all that run
# needs: it calls the GPU's library by the C programs and compares. HEDDLE names the command
# (build/bin/heddle). A model with f32 outputs is needed. For a model or a subject over ranges, such
# as matmul:1..2048x768x768, SIZES are those that are called: "1 17 300", or "2x17" for two ranges.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case ${1:-} in
  make)
    model=${2:?model.onnx} folder=${3:?FOLDER} target=${4:-cuda -gpu=h200} sizes=${5:-}
    heddle=${HEDDLE:-$here/../build/bin/heddle}
    mkdir -p "$folder"
    "$heddle" export "$model" -o "$folder/cpu" --threads 2 --target "llvm -mcpu=x86-64-v3"
    "$heddle" export "$model" -o "$folder/gpu" --target "$target"
    library=$(basename "$folder"/gpu/lib*.so)
    name=${library#lib}
    name=${name%.so}
    echo "$name" > "$folder/name"
    for size in ${sizes:-all}; do echo "$size"; done > "$folder/sizes"
    "${CC:-cc}" -O1 -static-libgcc -o "$folder/check" "$here/check_exported_library.c" -ldl -lm
    "${CC:-cc}" -O1 -static-libgcc -o "$folder/hostile" "$here/check_hostile_calls.c" -ldl
    while read -r size; do
      "$folder/check" "$folder/cpu/$library" "$name${sizes:+:$size}" "$folder/reference.$size"
    done < "$folder/sizes"
    rm -r "$folder/cpu"
    echo "now, where the GPU is: $0 run $folder"
    ;;
  run)
    folder=${2:?FOLDER}
    name=$(cat "$folder/name")
    while read -r size; do
      at=$([[ $size == all ]] || echo ":$size")
      echo "$name$at"
      "$folder/check" "$folder/gpu/lib$name.so" "$name$at" "$folder/outputs" "$folder/reference.$size"
    done < "$folder/sizes"
    "$folder/hostile" "$folder/gpu/lib$name.so" "$name"
    echo "the GPU computes what the CPU does, and calls that make no sense are errors"
    ;;
  *)
    sed -n '2,13s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
