// Features of products of matrices on a GPU that several heuristics have. `batch` names the feature
// that counts the products of a problem.
#pragma once

#include <string>
#include <vector>

#include "heddle/heuristics/heuristic.h"

namespace heddle::learning {

/// The facts of every product on tensor cores (meta_templates/cuda/products/tensor_core_rule.h).
std::vector<HeuristicFeature> tensor_core_facts();

/// The blocks of a product whose tiles have `rows` x `cols` results.
double blocks_of(const FeatureView& f, std::string_view batch, double rows, double cols);

AugmentedFeature multiply_adds(std::string batch);
AugmentedFeature depth_over_results(std::string batch);
AugmentedFeature rows_over_cols();
/// Blocks of such tiles for each multiprocessor.
AugmentedFeature blocks_an_sm(std::string name, std::string batch, double rows, double cols);
/// The share of the multiprocessors' time that the last round of such blocks leaves idle.
AugmentedFeature idle_share(std::string name, std::string batch, double rows, double cols);

}  // namespace heddle::learning
