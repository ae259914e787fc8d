#include "heddle/driver/generic_family.h"

#include <algorithm>
#include <string>

#include "driver/family_blocks.h"
#include "driver/family_near.h"
#include "driver/size_points.h"
#include "heddle/dag/instance.h"
#include "heddle/ir/sizes.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

std::vector<Tensor> outputs_of(const std::vector<Tensor>& args) {
  std::vector<Tensor> outputs;
  for (const Tensor& t : args) {
    if (!t) throw_user_error("an argument of a family is a Tensor that was never assigned");
    if (!t.op()->is_placeholder()) outputs.push_back(t);
  }
  return outputs;
}

/// The sizes of a kernel with these arguments, in its order.
std::vector<Var> sizes_of_call(const std::vector<Tensor>& args) {
  std::vector<Var> sizes;
  for (const Tensor& t : args) {
    for (const Expr& extent : t.shape()) add_sizes(extent, &sizes);
  }
  if (sizes.empty())
    throw_user_error("no argument has an extent that varies", {},
                     "declare them over a dimension, dim(name, lo, hi), or call build");
  return sizes;
}

}  // namespace

FamilyKernel generic_family(const std::vector<Tensor>& args, const Target& target,
                            const AutoSchedulerOptions& scheduler, const BuildOptions& options) {
  const std::vector<Tensor> outputs = outputs_of(args);
  family::SizePoints points = family::size_points(outputs, sizes_of_call(args), target);
  std::vector<FamilyKernel::Variant> variants;
  std::vector<std::string> steps;
  std::vector<int> variant_of;  // for each point; different sizes may have the same schedule
  for (const std::vector<SizeValue>& point : points.points) {
    const family::NearChoice near =
        family::choice_near(outputs, family::without_lucky_sizes(point, target), target, scheduler);
    const Schedule schedule = family::shared_at_all_sizes(near.schedule, outputs);
    std::string text = schedule.to_json().at("steps").dump();
    const auto known = std::find(steps.begin(), steps.end(), text);
    variant_of.push_back(static_cast<int>(known - steps.begin()));
    if (known != steps.end()) continue;
    steps.push_back(std::move(text));
    variants.push_back({family::sizes_text(near.at), build(schedule, args, options)});
  }
  for (SizeTreeNode& node : points.tree) {
    if (node.size < 0) node.variant = variant_of[static_cast<size_t>(node.variant)];
  }
  return {std::move(variants), std::move(points.tree)};
}

}  // namespace heddle
