#!/usr/bin/env python3
"""Writes a program of the examples at the head of the public headers, which a test target compiles.

    header_examples.py OUT.cpp

Each example is the body of a function whose names are declared in CONTEXT. Lines of it that are only `...` are left out. A
header with an example has to be in CONTEXT, or in PROSE where it shows something else than statements.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2] / "include/heddle"
TENSORS = "Tensor A, B, C, D, bias; NDArray a, b, c, d;"
OVER_N = "Tensor A, B, C; NDArray a, b, c;"
CONTEXT = {
    "autodiff/gradient.h": "", "codegen/emulator.h": None, "cost_model/cost_model.h": "std::span<const TrainingRow> rows; uint64_t task = 0; std::vector<std::vector<float>> candidates;",
    "dag/alternatives.h": "Tensor x, w, y; Target target;", "dag/compute_dag.h": "Tensor D;", "dag/generalize.h": None,
    "dag/user_choice.h": "Tensor y, z;", "driver/build_multi.h": "Tensor A, B, C; NDArray a, b, c; std::function<void(std::span<const NDArray>)> my_function;",
    "driver/export.h": None, "dsl/arrays.h": "NDArray weights; Tensor x;", "dsl/dim.h": "", "dsl/tensor.h": "const int M = 4, N = 4, K = 4;", "dsl/repeat.h": "const int64_t N = 4; Tensor x, zeros;", "dsl/update.h": "",
    "family/choose.h": OVER_N, "family/generic.h": OVER_N, "family/schedule.h": OVER_N,
    "generate/decoder.h": "", "generate/generation.h": "OnnxModel model; Network network{std::vector<Tensor>()};", "generate/gguf.h": "Tensor x;", "generate/precision.h": "", "heuristics/certificate.h": "std::vector<Tensor> outputs; Target target;", "heuristics/collect.h": None, "heuristics/learn.h": None, "measure/fleet.h": "Target target; Tensor D;",
    "network/audit.h": "Tensor logits;",
    "network/export_network.h": "", "network/network.h": "Tensor image, logits; NDArray x, y;",
    "network/pass_records.h": None, "network/passes.h": "Tensor logits;",
    "network/plan.h": "Tensor logits; std::vector<Tensor> args, outputs; Network net({logits});", "network/size_kernels.h": "",
    "network/tune.h": "Tensor logits; std::vector<Tensor> args; Network net({logits});",
    "onnx/import.h": "NDArray image, scores;", "ops/conv.h": "Tensor x, w, bias;", "ops/elementwise.h": "Tensor x, bias;",
    "ops/bits.h": "Tensor x, w, zero;", "ops/bounded.h": "Tensor mask, boxes, scores;",
    "ops/search.h": "Tensor borders, x;", "ops/sparse.h": "Tensor data, columns, begins, x;", "ops/fourier.h": "Tensor x, window;", "ops/random.h": "",
    "ops/sample.h": "Tensor x, theta, rois, batch;",
    "ops/linalg.h": "Tensor a, b, q, k, x, weight, bias;", "ops/nn.h": "Tensor scores, x, gamma, beta, q, k, v;",
    "ops/paged.h": "Tensor cache, rows, table, lengths, q, values; const int64_t n = 1;",
    "ops/pool.h": "Tensor x;", "ops/recurrent.h": "Tensor x, w, recurrence, bias;", "ops/reduce.h": "Tensor x;",
    "ops/resize.h": "Tensor x;", "ops/scatter.h": "Tensor x, indices, updates;", "ops/sort.h": "Tensor scores;",
    "ops/training.h": "Tensor logits, labels, w, velocity;", "ops/transform.h": "Tensor x;", "records/record_log.h": "Record record;",
    "runtime/cuda.h": "Kernel kernel, first, second; NDArray b, c;", "runtime/cuda_timing.h": "Kernel kernel; NDArray a, b, c;",
    "runtime/device.h": "NDArray array;", "runtime/kernel.h": "Kernel kernel; NDArray a, b, bias, d;",
    "runtime/multi_kernel.h": "Tensor A, B, C; const Schedule fast_for_many_rows({C}), fast_for_few({C}); NDArray a, b, c;",
    "runtime/ndarray.h": "const int M = 4, N = 4, K = 4; DLManagedTensor* tensor_of_another_library = nullptr;",
    "quantize/precision.h": "Tensor image, logits;", "quantize/quantize.h": "", "runtime/npz.h": "",
    "runtime/profile.h": "Kernel kernel; NetworkKernel network_kernel; NDArray x, y, image, logits;",
    "runtime/thread_pool.h": "Kernel kernel; NDArray a, b;", "runtime/timer.h": "Kernel kernel; NDArray a, b, c;",
    "schedule/options.h": "Tensor D;", "schedule/schedule.h": "Tensor C, D;", "search/print.h": "Tensor y;",
    "search/tune.h": TENSORS, "support/dtype.h": "", "support/json.h": "", "target/rule_constants.h": "", "target/target.h": "",
}
# What is shown there is no statement of a program, or is for those who extend Heddle (the lessons compile such code).
PROSE = {
    "dag/attention.h", "dag/computed_matrix.h", "dag/scatter.h", "heuristics/heuristic.h", "ir/expr.h", "instruction/instruction.h", "lower/gpu_program.h", "measure/worker.h", "records/database.h",
    "schedule/choice.h", "schedule/meta_template.h", "support/decision_tree.h", "support/error.h", "support/function_ref.h",
    "support/ref.h", "target/narrow_strips.h",
}
PROSE |= {name for name, context in CONTEXT.items() if context is None}


def example_of(text):
    """The first run of indented lines of the comment at the head."""
    lines = []
    for line in text.split("#pragma once")[0].splitlines():
        if re.match(r"^//   +\S", line):
            lines.append(line[2:])
        elif lines:
            break
    return [line for line in lines if line.split("//")[0].strip() != "..."]


def main():
    parts = ['#include <chrono>\n#include <iostream>\n\n#include "heddle/heddle.h"\n\nusing namespace heddle;\n'
             "using namespace std::chrono_literals;\n\n// Compiled and not called.\n"]
    for path in sorted(ROOT.rglob("*.h")):
        name, example = path.relative_to(ROOT).as_posix(), example_of(path.read_text(encoding="utf-8"))
        if not example or name in PROSE:
            continue
        if name not in CONTEXT:
            sys.exit(f"{name} has an example: what it names belongs into CONTEXT of {sys.argv[0]}")
        function = "example_of_" + re.sub(r"\W", "_", name[:-2])
        parts.append(f"[[maybe_unused]] void {function}() {{\n  {CONTEXT[name]}\n  {{\n" + "\n".join(example) + "\n  }\n}\n")
    pathlib.Path(sys.argv[1]).write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
