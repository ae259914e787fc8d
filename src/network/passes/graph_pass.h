// The passes over the graph of a network, each in a file of its name with a picture of before and
// after.
#pragma once

#include <string>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/network/passes.h"
#include "heddle/target/target.h"

namespace heddle::network {

/// What a pass is given.
struct PassContext {
  const ComputeDag& dag;
  const Target& target;
  std::vector<std::string>& log;  ///< one sentence for each change is appended
};

// Each returns the outputs of the graph as it makes them, in the order of the graph; the graph's
// own where it finds nothing to change. Placeholders stay the same objects.
std::vector<Tensor> fold_constants(const PassContext& context);
std::vector<Tensor> fold_movers(const PassContext& context);
/// The part of fold_movers that makes one mover of several, which shows views.
std::vector<Tensor> join_movers(const PassContext& context);
std::vector<Tensor> fold_views(const PassContext& context);
std::vector<Tensor> fold_scales(const PassContext& context);
std::vector<Tensor> join_products(const PassContext& context);

/// The graph after all passes that are on. What they did is appended to `log`.
ComputeDag run_passes(const ComputeDag& declared, const Target& target, const PassOptions& options,
                      std::vector<PassApplication>& log);

}  // namespace heddle::network
