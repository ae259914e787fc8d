// A network as a library contains it: the same data for CPUs and GPUs, which export_network makes
// and the runtime in the library reads. Each step is a list of kernels and a tree on the sizes of a
// call that names one of them. A family of kernels is a network of one step; where extents are
// constant, each step has one kernel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heddle/runtime/family_kernel.h"
#include "heddle/runtime/kernel.h"
#include "heddle/support/json.h"
#include "runtime/cuda/cuda_program.h"
#include "runtime/program/places.h"
#include "runtime/program/selector.h"

namespace heddle {

/// A size that a call gives. Kernels take it divided by the multiple.
struct ExportedSize {
  std::string name;
  int64_t lo = 0, hi = 0, multiple = 1;
};

/// A kernel. Its parameters are arguments, then sizes. For a CPU, buffers that were prepared when
/// the library was written are among the arguments; for a GPU they are made when it is opened.
struct ExportedKernel {
  std::string name;
  int args = 0;
  std::shared_ptr<const cuda::Program> gpu = {};  ///< without machine code; null for a CPU
  std::vector<int> constants = {};                ///< the arguments that its preparation reads
  std::vector<int64_t> prepared_bytes = {};       ///< of the buffers that it makes
};

struct ExportedVariant {
  int kernel = 0;
  std::vector<ProgramPlace> places;
};

struct ExportedStep {
  std::vector<ExportedVariant> variants;
  Selector selector = {};
};

/// An array among the weights: bytes from the start.
struct ExportedArray {
  int64_t at = 0, bytes = 0;
};

struct ExportedProgram {
  std::string name, target;
  std::vector<std::string> features = {};  ///< what the CPU must have, by LLVM's names
  std::vector<KernelArg> args = {};        ///< inputs, then outputs
  std::vector<ExportedSize> sizes = {};
  std::vector<ExportedKernel> kernels = {};
  std::vector<ExportedStep> steps = {};
  std::vector<ExportedArray> arrays = {};
  std::vector<ProgramView> views = {};
  std::vector<TurnPlace> turns = {};
  std::vector<ProgramLoop> loops = {};
  std::vector<size_t> updated = {};  ///< positions of inputs that calls update
  int64_t arena_bytes = 0, weights_bytes = 0;
  uint64_t weights_hash = 0;
  bool check_weights = true;  ///< whether opening the network compares the weights with the hash
};

Json to_json(const ExportedProgram& program);
/// Throws a User error for JSON that to_json did not make.
ExportedProgram exported_program_from_json(const Json& json);

}  // namespace heddle
