// What the files of this folder share.
#pragma once

#include "heddle/network/network.h"

namespace heddle {

struct Network::Impl {
  Impl(std::vector<Tensor> outputs, Target t) : dag(std::move(outputs)), target(std::move(t)) {}

  ComputeDag dag;
  Target target;
  std::vector<TuneTask> tasks;
  std::vector<NetworkNode> nodes;
};

}  // namespace heddle
