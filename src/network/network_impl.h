// Declarations that the files of this folder share.
#pragma once

#include "heddle/network/network.h"
#include "network/passes/graph_pass.h"

namespace heddle {

struct Network::Impl {
  Impl(std::vector<Tensor> outputs, const Target& t, const AutoSchedulerOptions& o,
       const PassOptions& p)
      : declared(std::move(outputs)),
        target(apply_options(t, o)),
        options(o),
        passes(p),
        dag(network::run_passes(declared, target, passes, changes)) {}

  ComputeDag declared;
  Target target;  ///< as the options limit it
  AutoSchedulerOptions options;
  PassOptions passes;
  std::vector<PassApplication> changes;  ///< by the passes
  ComputeDag dag;                        ///< after the passes
  std::vector<TensorPlace> places;
  std::vector<TuneTask> tasks;
  std::vector<NetworkNode> nodes;

  void name_outputs();
};

}  // namespace heddle
