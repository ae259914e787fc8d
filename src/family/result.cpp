#include "family/result.h"

#include <algorithm>
#include <cmath>

namespace heddle::family {

Kept keep_best(const std::vector<Dim>& dims, const std::vector<FamilyVariant>& candidates,
               const std::vector<FamilyPoint>& points, const std::vector<Raced>& raced, int most) {
  std::vector<int> which = select(raced, most);
  SizeTree tree = grow(raced, which);
  return keep(dims, candidates, points, raced, std::move(which), std::move(tree));
}

Kept keep(const std::vector<Dim>& dims, const std::vector<FamilyVariant>& candidates,
          const std::vector<FamilyPoint>& points, const std::vector<Raced>& raced,
          std::vector<int> which, SizeTree tree) {
  Kept kept;
  kept.candidates = std::move(which);
  FamilyResult& out = kept.result;
  out.dims = dims;
  out.tree = std::move(tree);
  out.candidates = static_cast<int>(candidates.size());
  for (const int c : kept.candidates) out.variants.push_back(candidates[static_cast<size_t>(c)]);
  double loss = 0, weight = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const Raced& r = raced[i];
    FamilyRow row{points[i], variant_at(out.tree, r.sizes), {}, 1};
    for (const int c : kept.candidates) row.seconds.push_back(r.seconds[static_cast<size_t>(c)]);
    row.slowdown = row.seconds[static_cast<size_t>(row.variant)] /
                   *std::min_element(r.seconds.begin(), r.seconds.end());
    loss += r.weight * std::log(row.slowdown);
    weight += r.weight;
    out.rows.push_back(std::move(row));
  }
  out.expected_slowdown = weight > 0 ? std::exp(loss / weight) : 1;
  return kept;
}

}  // namespace heddle::family
