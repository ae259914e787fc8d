#include "schedule/groups/computed_apart.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "heddle/ir/simplify.h"
#include "ir/sizes.h"

namespace heddle {
namespace {

// A part of a reader of rank 1.
constexpr int64_t kElements = 32;

/// One row of a stage: its other axes have one value each.
struct Part {
  std::vector<VarBinding> fixed;
  Ranges ranges;
};

/// The row at a share of the extents, from 0 to 1.
Part part_at(const Operation& op, double share) {
  Part part;
  const std::vector<Axis>& axes = op.axes();
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t last = largest_extent(axes[i]->extent) - 1;
    const auto at = static_cast<int64_t>(share * static_cast<double>(last));
    if (i + 1 < axes.size()) {
      part.fixed.push_back({axes[i].var(), Expr(at)});
    } else if (i > 0) {
      part.ranges.set(axes[i].var(), {0, last});
    } else {
      part.ranges.set(axes[i].var(), {at, std::min(at + kElements - 1, last)});
    }
  }
  for (const Axis& k : op.reduce_axes())
    part.ranges.set(k.var(), {0, largest_extent(k->extent) - 1});
  return part;
}

using Box = std::vector<Interval>;

double points_of(const Box& box) {
  double points = 1;
  for (const Interval& side : box) points *= static_cast<double>(side.max - side.min + 1);
  return points;
}

Box around(const Box& a, const Box& b) {
  Box both = a;
  for (size_t d = 0; d < both.size(); ++d)
    both[d] = {std::min(a[d].min, b[d].min), std::max(a[d].max, b[d].max)};
  return both;
}

bool overlap(const Box& a, const Box& b) {
  bool all = true;
  for (size_t d = 0; d < a.size(); ++d)
    all = all && a[d].min <= b[d].max + 1 && b[d].min <= a[d].max + 1;
  return all;
}

/// Adds a box to boxes that lie apart: those that it overlaps or touches become one with it.
void add(std::vector<Box>& apart, Box box) {
  for (size_t i = 0; i < apart.size();) {
    if (!overlap(apart[i], box)) {
      ++i;
      continue;
    }
    box = around(apart[i], box);
    apart.erase(apart.begin() + static_cast<std::ptrdiff_t>(i));
    i = 0;
  }
  apart.push_back(std::move(box));
}

/// The box of what a part reads by one access.
Box box_of(const Access& a, const Part& part) {
  Box box;
  for (size_t d = 0; d < a.indices.size(); ++d) {
    const Interval r = range_of(simplify(substitute(a.indices[d], part.fixed)), part.ranges);
    const int64_t last = largest_extent(a.tensor.shape()[d]) - 1;
    box.push_back({std::clamp<int64_t>(r.min, 0, last), std::clamp<int64_t>(r.max, 0, last)});
  }
  return box;
}

}  // namespace

double computed_per_read(const ComputeDag& dag, int s, int reader) {
  std::vector<const Access*> reads;
  for (const Access& a : dag.info(reader).reads) {
    if (a.producer != s) continue;
    if (a.pattern == AccessPattern::Opaque) return std::numeric_limits<double>::infinity();
    reads.push_back(&a);
  }
  if (reads.size() < 2 || dag.info(s).points == 0 || dag.info(reader).points == 0) return 1;
  double most = 1;
  for (const double share : {0.0, 0.25, 0.5, 1.0}) {
    const Part part = part_at(dag.stage(reader), share);
    std::vector<Box> apart;
    for (const Access* a : reads) add(apart, box_of(*a, part));
    Box whole = apart[0];
    double read = 0;
    for (const Box& box : apart) {
      whole = around(whole, box);
      read += points_of(box);
    }
    most = std::max(most, points_of(whole) / read);
  }
  return most;
}

namespace {

constexpr uint64_t kWhole = uint64_t{1} << 63;  // a reduction goes over the dimension
constexpr size_t kAxes = 63;

uint64_t bit_of(size_t axis) { return uint64_t{1} << std::min(axis, kAxes - 1); }

}  // namespace

void FollowedAxes::begin(int s) {
  std::vector<uint64_t>& mine = of_[static_cast<size_t>(s)];
  mine.resize(dag_.stage(s).axes().size());
  for (size_t d = 0; d < mine.size(); ++d) mine[d] = bit_of(d);
}

void FollowedAxes::follow(int s) {
  std::vector<uint64_t> mine(dag_.stage(s).axes().size());
  for (const int c : dag_.info(s).consumers) {
    const Operation& reader = dag_.stage(c);
    const std::vector<uint64_t>& theirs = of_[static_cast<size_t>(c)];
    for (const Access& a : dag_.info(c).reads) {
      if (a.producer != s) continue;
      for (size_t d = 0; d < mine.size(); ++d) {
        for (size_t x = 0; x < theirs.size(); ++x)
          if (uses_var(a.indices[d], reader.axes()[x].var())) mine[d] |= theirs[x];
        for (const Axis& k : reader.reduce_axes())
          if (uses_var(a.indices[d], k.var())) mine[d] |= kWhole;
      }
    }
  }
  of_[static_cast<size_t>(s)] = std::move(mine);
}

double FollowedAxes::times_in_rows(int s, int output) const {
  const std::vector<Axis>& rows = dag_.stage(output).axes();
  const std::vector<uint64_t>& mine = of_[static_cast<size_t>(s)];
  if (rows.size() < 2) return 1;
  const uint64_t whole = kWhole | bit_of(rows.size() - 1);
  double times = 1;
  for (size_t d = 0; d + 1 < rows.size(); ++d)
    times *= static_cast<double>(largest_extent(rows[d]->extent));
  for (size_t d = 0; d < mine.size(); ++d) {
    if (mine[d] != 0 && (mine[d] & whole) == 0)
      times /= static_cast<double>(largest_extent(dag_.stage(s).axes()[d]->extent));
  }
  return times;
}

}  // namespace heddle
