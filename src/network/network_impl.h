// Declarations shared by the files of this folder.
#pragma once

#include "heddle/network/network.h"

namespace heddle {

struct Network::Impl {
  Impl(std::vector<Tensor> outputs, const Target& t, const AutoSchedulerOptions& o)
      : dag(std::move(outputs)), target(apply_options(t, o)), options(o) {}

  ComputeDag dag;
  Target target;  ///< as the options limit it
  AutoSchedulerOptions options;
  std::vector<TuneTask> tasks;
  std::vector<NetworkNode> nodes;
};

}  // namespace heddle
