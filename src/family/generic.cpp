#include "heddle/family/generic.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "family/blocks.h"
#include "family/size_choices.h"
#include "heddle/dag/instance.h"
#include "heddle/support/error.h"
#include "ir/sizes.h"

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

/// A call knows the sizes of its arguments only.
void check_sizes(const std::vector<Tensor>& outputs, const std::vector<Var>& of_call) {
  for (const Var& s : sizes_of(outputs)) {
    const auto is_it = [&](const Var& v) { return v.same_as(s); };
    if (std::none_of(of_call.begin(), of_call.end(), is_it))
      throw_user_error("no argument has an extent over '" + s->name + "'", {},
                       "the extents of the arguments say what sizes a call has");
  }
}

// The static choice changes with the size, but below the lanes of a warp mostly with what divides
// it, which says nothing about the sizes between.
constexpr family::PointSpacing kClose{4, 6, 1.5};

/// A kernel runs at somewhat more than the size that it was chosen at, too: the one for the next
/// larger size is further away there, and was chosen for much more work.
constexpr double kBeyond = 1.5;

/// Moves each boundary of a tree on one size up to there, at most to the middle of both points.
void move_boundaries(family::SizePoints& made) {
  if (made.points[0].size() != 1) return;
  for (TreeNode& node : made.tree) {
    if (node.feature < 0) continue;
    const double point = node.at_most;
    double next = point;
    for (const std::vector<SizeValue>& p : made.points) {
      if (next == point && static_cast<double>(p[0].value) > point)
        next = static_cast<double>(p[0].value);
    }
    node.at_most = std::floor(std::min(kBeyond * point, std::sqrt(point * next)));
  }
}

/// Points without a kernel get that of the next point that has one, or of the one before.
void fill_gaps(std::vector<int>& variant_of) {
  for (size_t i = variant_of.size(); i-- > 1;) {
    if (variant_of[i - 1] < 0) variant_of[i - 1] = variant_of[i];
  }
  for (size_t i = 1; i < variant_of.size(); ++i) {
    if (variant_of[i] < 0) variant_of[i] = variant_of[i - 1];
  }
}

}  // namespace

FamilyKernel generic_family(const std::vector<Tensor>& args, const Target& target,
                            const AutoSchedulerOptions& scheduler, const BuildOptions& options) {
  const std::vector<Tensor> outputs = outputs_of(args);
  const std::vector<Var> sizes = sizes_of_call(args);
  check_sizes(outputs, sizes);
  auto [points, choices] = family::size_choices(outputs, sizes, target, scheduler, kClose);
  std::vector<FamilyKernel::Variant> variants;
  std::vector<std::string> steps;
  std::vector<int> variant_of;  // for each point; different sizes may have the same schedule
  const auto add = [&](const family::NearChoice& near) {
    const Schedule schedule = family::shared_at_all_sizes(near.schedule, outputs);
    std::string text = family::identity(schedule);
    const auto known = std::find(steps.begin(), steps.end(), text);
    const auto variant = static_cast<int>(known - steps.begin());
    if (known == steps.end()) {
      variants.push_back({family::sizes_text(near.at), build(schedule, args, options)});
      steps.push_back(std::move(text));
    }
    variant_of.push_back(variant);
  };
  for (size_t i = 0; i < choices.size(); ++i) {
    try {
      add(choices[i]);
    } catch (const Error& e) {
      // Code generation refuses some schedules.
      const bool last = i + 1 == choices.size();
      if (e.kind != ErrorKind::User || (last && variants.empty())) throw;
      variant_of.push_back(-1);
    }
  }
  fill_gaps(variant_of);
  if (!target.is_cuda()) move_boundaries(points);
  for (TreeNode& node : points.tree) {
    if (node.feature < 0) node.yes = variant_of[static_cast<size_t>(node.yes)];
  }
  return {std::move(variants), std::move(points.tree)};
}

}  // namespace heddle
