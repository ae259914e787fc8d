// Packs neighbouring groups of a grouped convolution into one, whose filter is zero where a result
// does not depend on a channel:
//
//   result[.., k] = sum over c < C, r.. of image[.., (k / K) * C + c] * weight[r.., c, k] (before)
//
//   W[r.., c, k]  = weight[r.., c % C, k] where c / C == (k / K) % P, else 0 (after) result[.., k]
//   = sum over c < P * C, r.. of image[.., (k / (P * K)) * (P * C) + c] * W[r.., c, k]
//
// There are P times as many products, most of them with zeros. A matrix unit has them to spare
// where a group has few channels: its tiles have at least 8 columns and 8 to 32 steps, and memory
// is read in sectors of 32 bytes. A constant filter is packed once. An infinite element of the
// image makes the results of all packed groups NaN.
#include <algorithm>

#include "dag/patterns/convolution.h"
#include "dag/rewrites/rewrite_parts.h"
#include "heddle/dag/alternatives.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

/// A stage that is a grouped convolution.
struct Groups {
  const Access *image = nullptr, *weight = nullptr;
  std::size_t k = 0, c = 0;  ///< positions among the axes and among the reduce axes
  int channel = -1;          ///< the dimension of the image
  int weight_k = -1, weight_c = -1;
  int64_t count = 1;                  ///< number of groups
  int64_t results = 1, channels = 1;  ///< of a group
};

/// The constant K where `e` contains floordiv(axis, K); otherwise 0.
int64_t divisor_of(const Expr& e, const Axis& axis) {
  int64_t found = 0;
  visit(e, [&](const Expr& x) {
    const auto* b = x.as<Binary>();
    if (b && b->op == BinaryOp::FloorDiv && b->a.same_as(axis.var().expr()) && as_int(b->b))
      found = *as_int(b->b);
  });
  return found;
}

/// Whether `index` is (k / K) * C + c, where C is the extent of c.
bool is_channel(const Expr& index, const Axis& k, int64_t of_group, const Axis& c) {
  const Var group("group"), member("member");
  Ranges ranges;
  ranges.set(group, {0, k.extent() / of_group - 1});
  ranges.set(member, {0, of_group - 1});
  const Expr split = substitute(
      index, std::vector<VarBinding>{{k.var(), group.expr() * Expr(of_group) + member.expr()}});
  const std::optional<Affine> a = as_affine(simplify(split, ranges));
  return a && a->constant == 0 && a->terms.size() == 2 && a->coefficient(group) == c.extent() &&
         a->coefficient(c.var()) == 1;
}

/// Finds the groups of `image` along the axis `k`.
bool find_along(const Operation& op, const Access& image, const Access& weight, std::size_t k,
                Groups* out) {
  const Axis& axis = op.axes()[k];
  for (std::size_t d = 0; d < image.indices.size(); ++d) {
    const int64_t of_group = divisor_of(image.indices[d], axis);
    if (of_group < 1 || axis.extent() % of_group != 0 || of_group == axis.extent()) continue;
    for (std::size_t r = 0; r < op.reduce_axes().size(); ++r) {
      const Axis& c = op.reduce_axes()[r];
      if (!is_channel(image.indices[d], axis, of_group, c)) continue;
      const auto elsewhere = [&](const Axis& x) {
        for (std::size_t other = 0; other < image.indices.size(); ++other) {
          if (other != d && uses_var(image.indices[other], x.var())) return true;
        }
        return false;
      };
      const int weight_k = dag::plain_dimension(weight, axis),
                weight_c = dag::plain_dimension(weight, c);
      if (elsewhere(axis) || elsewhere(c) || weight_k < 0 || weight_c < 0) return false;
      *out = {&image,
              &weight,
              k,
              r,
              static_cast<int>(d),
              weight_k,
              weight_c,
              axis.extent() / of_group,
              of_group,
              c.extent()};
      return true;
    }
  }
  return false;
}

WhyNot match(const RewriteSite& site, Groups* out) {
  const Access* operands[2];
  if (WhyNot why = dag::match_contraction(site.dag, site.stage, operands); !why.empty()) return why;
  bool found = false;
  for (const int image : {0, 1}) {
    for (std::size_t k = 0; k < site.op().axes().size() && !found; ++k)
      found = find_along(site.op(), *operands[image], *operands[1 - image], k, out);
  }
  if (!found) return WhyNot::other_kind("of groups that have several channels or results each");
  return "";
}

WhyNot why_not(const RewriteSite& site) {
  Groups g;
  if (WhyNot why = match(site, &g); !why.empty()) return why;
  const int64_t by = site.values[0];
  if (by < 2 || g.count % by != 0)
    return std::to_string(g.count) + " groups cannot be packed by " + std::to_string(by);
  return "";
}

/// The filter of packed groups.
Tensor packed_filter(const Operation& op, const Groups& g, int64_t by) {
  std::vector<int64_t> extents = g.weight->tensor.extents();
  extents[static_cast<std::size_t>(g.weight_c)] *= by;
  const DataType type = g.weight->tensor.dtype();
  return compute(
      extents,
      [&](const std::vector<Axis>& i) {
        const Axis &c = i[static_cast<std::size_t>(g.weight_c)],
                   &k = i[static_cast<std::size_t>(g.weight_k)];
        std::vector<Expr> at(i.begin(), i.end());
        at[static_cast<std::size_t>(g.weight_c)] = floormod(c, g.channels);
        return select(floordiv(c, g.channels) == floormod(floordiv(k, g.results), by),
                      g.weight->tensor.at(at), make_const(type, 0));
      },
      op.name() + "_filter", "pack_groups", op.where());
}

std::vector<Tensor> apply(const RewriteSite& site) {
  Groups g;
  const WhyNot why = match(site, &g);
  HEDDLE_ICHECK(why.empty(), "pack_groups where it is not legal: " + why.text());
  const Operation& op = site.op();
  const int64_t by = site.values[0];
  const Tensor filter = packed_filter(op, g, by);
  const DataType type = op.bodies()[0].as<Reduce>()->sources[0].dtype();
  return {compute(
      op.output(0).shape(),
      [&](const std::vector<Axis>& i) {
        const auto [over, to] = dag::new_axes(op, i, [&](std::size_t r) {
          return Expr((r == g.c ? by : 1) * op.reduce_axes()[r].extent());
        });
        std::vector<Expr> at;
        for (const Expr& e : g.image->indices) at.push_back(substitute(e, to));
        const Expr first =
            g.count == by ? Expr(0) : floordiv(i[g.k], by * g.results) * (by * g.channels);
        at[static_cast<std::size_t>(g.channel)] = first + over[g.c];
        return sum_in(type,
                      dag::factor_of(op, *g.image, g.image->tensor.at(at)) *
                          dag::factor_of(op, *g.weight, dag::read_at(filter, *g.weight, to)),
                      over);
      },
      op.name(), op.tag(), op.where())};
}

constexpr int64_t kMostChannels = 64;  // of a packed group

/// Cycles of an SM for one pixel and one tap, for each of the groups that are packed. Of
/// mma.sync and of L2, as the rule for tiles counts them
/// (meta_templates/cuda/products/tensor_core_rule.cpp).
double cycles(const Groups& g, int64_t by) {
  constexpr double kSectorBytes = 32, kL2BytesPerCycle = 25, kMmaBytesPerCycle = 2600;
  constexpr int64_t kColumns = 8;
  const double bytes = g.image->tensor.dtype().bytes(), packed = static_cast<double>(by);
  const double channels = packed * static_cast<double>(g.channels),
               columns = static_cast<double>(round_up(by * g.results, kColumns));
  return (std::max(kSectorBytes, channels * bytes) / kL2BytesPerCycle +
          channels * columns * bytes / kMmaBytesPerCycle) /
         packed;
}

std::vector<std::vector<int64_t>> suited(const RewriteSite& site, const Target&) {
  Groups g;
  if (!match(site, &g).empty()) return {{2}};
  std::vector<std::vector<int64_t>> out;
  for (int64_t by = 2; by <= g.count; ++by) {
    if (g.count % by == 0 && by * std::max(g.channels, g.results) <= kMostChannels)
      out.push_back({by});
  }
  if (out.empty()) out.push_back({g.count});
  return out;
}

bool has_matrix_units(DataType t) {
  return t == f16 || t == bf16 || t == i8 || t == u8 || t.is_float8();
}

RewriteEstimate estimate(const RewriteSite& site, const Target& target) {
  constexpr double kLeastGain = 1.2;
  if (!target.is_cuda() || target.gpu.sm() < 80)
    return {.why_not = "products with zeros are for matrix units that have them to spare"};
  Groups g;
  match(site, &g);
  if (!has_matrix_units(g.image->tensor.dtype()))
    return {.why_not = "no matrix unit multiplies these types"};
  const double gain = cycles(g, 1) / cycles(g, site.values[0]);
  if (gain < kLeastGain)
    return {.why_not = "a group fills the sectors of memory and the columns of a tile"};
  return {gain, "packed groups fill the sectors of memory and the columns of a tile"};
}

HEDDLE_REGISTER_REWRITE_RULE({.name = "pack_groups",
                              .parameters = {{"by"}},
                              .why_not = why_not,
                              .apply = apply,
                              .error_growth = [](const RewriteSite&) { return 1.0; },
                              .estimate = estimate,
                              .suited = suited});

}  // namespace
}  // namespace heddle
