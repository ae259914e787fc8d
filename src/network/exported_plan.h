// What an exported network is made of, before it is text and machine code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/runtime/kernel.h"

namespace heddle::network {

/// What a step is given for one of its parameters: exported_tables.inc.
struct ExportedPlace {
  int where = 0;
  int64_t at = 0;
};

struct ExportedStep {
  std::string name;   ///< of the task, for people
  std::string entry;  ///< the function
  std::vector<ExportedPlace> places;
};

struct ExportedPlan {
  std::string name, target;
  std::vector<std::string> features;
  std::vector<KernelArg> inputs, outputs;
  std::vector<ExportedStep> steps;
  int64_t arena_bytes = 0, weights_bytes = 0;
  uint64_t weights_hash = 0;
};

/// The header for users of the library.
std::string header_text(const ExportedPlan& plan);
/// The tables and the functions that the header declares, in C.
std::string tables_text(const ExportedPlan& plan);

}  // namespace heddle::network
