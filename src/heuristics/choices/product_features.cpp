#include "heuristics/choices/product_features.h"

#include <cmath>
#include <utility>

namespace heddle::learning {

std::vector<HeuristicFeature> tensor_core_facts() {
  return {{"rows"}, {"cols"}, {"depth"}, {"batch"}, {"operand_bytes"}};
}

double blocks_of(const FeatureView& f, std::string_view batch, double rows, double cols) {
  return std::ceil(f["rows"] / rows) * std::ceil(f["cols"] / cols) * f[batch];
}

AugmentedFeature multiply_adds(std::string batch) {
  return {{"multiply_adds"}, [batch = std::move(batch)](const FeatureView& f) {
            return f["rows"] * f["cols"] * f["depth"] * f[batch];
          }};
}

AugmentedFeature depth_over_results(std::string batch) {
  return {{"depth_over_results"}, [batch = std::move(batch)](const FeatureView& f) {
            return f["depth"] / (f["rows"] * f["cols"] * f[batch]);
          }};
}

AugmentedFeature rows_over_cols() {
  return {{"rows_over_cols"}, [](const FeatureView& f) { return f["rows"] / f["cols"]; }};
}

AugmentedFeature blocks_an_sm(std::string name, std::string batch, double rows, double cols) {
  return {{std::move(name)}, [batch = std::move(batch), rows, cols](const FeatureView& f) {
            return blocks_of(f, batch, rows, cols) / f["sms"];
          }};
}

AugmentedFeature idle_share(std::string name, std::string batch, double rows, double cols) {
  return {{std::move(name)}, [batch = std::move(batch), rows, cols](const FeatureView& f) {
            const double rounds = blocks_of(f, batch, rows, cols) / f["sms"];
            return 1 - rounds / std::ceil(rounds);
          }};
}

}  // namespace heddle::learning
