// The parts of an exported network, before they become text and machine code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/runtime/family_kernel.h"
#include "heddle/runtime/kernel.h"
#include "runtime/cuda/cuda_program.h"

namespace heddle::network {

/// The place of a parameter of a step: exported_tables.inc.
struct ExportedPlace {
  int where = 0;
  int64_t at = 0;
};

/// A size that calls give: an extent of an input or an output.
struct ExportedSize {
  std::string name;
  std::string extent;  ///< in words, such as "dimension 0 of 'x'"
  int64_t lo = 0, hi = 0, multiple = 1;
};

/// The interface of the library for its users.
struct ExportedInterface {
  std::string name, target;
  std::string version;  ///< of Heddle and of the declaration
  std::string plan;     ///< the text of the plan (network/plan.h); empty without one
  std::vector<KernelArg> inputs, outputs;  ///< shapes are those of the largest sizes
  std::vector<ExportedSize> sizes;
  int steps = 0;
  int64_t arena_bytes = 0, weights_bytes = 0;
  uint64_t weights_hash = 0;
  bool check_weights = true;  ///< whether opening the network compares the weights with the hash
};

/// One of the functions that compute a step.
struct ExportedVariant {
  std::string entry;
  std::vector<ExportedPlace> places;
};

struct ExportedStep {
  std::string name;  ///< readable name of the task
  std::vector<ExportedVariant> variants;
  SizeTree tree;  ///< on the sizes; its leaves name variants
};

/// A network for a CPU.
struct ExportedPlan {
  ExportedInterface interface;
  std::vector<std::string> features;
  std::vector<ExportedStep> steps;
};

/// A network for a GPU (heddle_gpu_network_tables).
struct ExportedGpuPlan {
  struct Kernel {
    std::string name;
    std::string code_file;  ///< path of the cubin, which is embedded in the library
    cuda::Program program;
    int args = 0;
    std::vector<int64_t> prepared_bytes;
  };
  struct Array {
    int64_t at = 0, bytes = 0;
  };
  struct Preparation {
    int kernel = 0;
    std::vector<int> arrays;  ///< array of each argument; -1 where it is no constant
  };
  struct Variant {
    int kernel = 0;
    std::vector<ExportedPlace> places;
  };
  struct Step {
    std::vector<Variant> variants;
    SizeTree tree;  ///< on the sizes; its leaves name variants
  };
  ExportedInterface interface;
  std::vector<Kernel> kernels;
  std::vector<Step> steps;
  std::vector<Array> arrays;
  std::vector<Preparation> preparations;
};

/// The header for users of the library.
std::string header_text(const ExportedInterface& interface, bool for_gpu);
/// The tables and the functions that the header declares, in C.
std::string tables_text(const ExportedPlan& plan);
std::string tables_text(const ExportedGpuPlan& plan);

}  // namespace heddle::network
