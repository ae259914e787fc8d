// Chains of stages of a graph that one template computes in another form.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/target/target.h"

namespace heddle {

struct FusedChains {
  /// The loops are those of `first`, the stage that divides, or of the sum; those of `outer` lie
  /// between them.
  struct Chain {
    int sum = -1, first = -1;
    std::vector<int> outer;
    bool joins = true;  ///< whether a later stage may compute `first` inside of itself
    bool rows = false;  ///< a program of rows (row_program.h), of which `sum` is the last stage
  };
  std::vector<int> of;          ///< for each stage, the sum of its chain; -1: none
  std::map<int, Chain> chains;  ///< by the sum
  /// What the products of chains read, behind transpositions. Each block of rows reads it again, so
  /// stages that do arithmetic are stored.
  std::set<int> operands;
};

/// Attentions (dag/attention.h), and matrices of products that are reduced where they are computed
/// (dag/computed_matrix.h), on GPUs with matrix units; the latter on CPUs, too; programs of rows on all GPUs. No
/// target: none.
FusedChains find_fused_chains(const ComputeDag& dag, const Target* target);

}  // namespace heddle
