// Simple reductions on a GPU: each operand element is read once, so memory is what counts; 16-byte
// loads of neighbouring lanes, several under way, and enough blocks.
//
//   along a contiguous reduce axis ("rows", cuda_reduce_rows.cpp): a warp or a block a row
//   along a strided reduce axis ("columns", cuda_reduce_columns.cpp): lanes along the result
//   fewer rows or columns than keep the machine busy, and reductions to one value: cut into parts
//     (rfactor); a second kernel combines them, or, of one value, the block that finishes last
//   short windows (pooling), and what fits none of these: a thread for each element of the result
//
// Hosted (one value per row of another group), it has a location as well. Knobs: split_reduction,
// part_length, one_launch; those of the shapes, with part_ before them for the parts and last_ for
// what combines them; location.
#include "cuda/reductions.h"

namespace heddle::meta {
namespace {

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  if (!target.is_cuda() || !dag.stage(g.anchor).is_reduction()) return false;
  return g.anchor_class == StageClass::SimpleReduction ||
         (g.anchor_class == StageClass::ComplexReduction && streams_one_operand(dag, g.anchor));
}

enum class Shape { Rows, Columns, Points };

// What is known of the reduction before any knob.
struct Plan {
  Shape shape = Shape::Points;
  int k = 0;           // the axis that lanes (rows) or threadIdx.y (columns) go along
  int cut = 0;         // the axis that is cut into parts
  int64_t lanes = 1;   // of a 16-byte access
  int64_t points = 1;  // results
  bool commutative = true;
  bool heavy = false;  // the result is a tuple: an index beside each element
};

int64_t extent_of(const Operation& op, int k) {
  return op.reduce_axes()[static_cast<size_t>(k)].extent();
}

// The largest operand runs along the result's last axis.
bool along_last_axis(const ComputeDag& dag, int s) {
  const Operation& op = dag.stage(s);
  const Access* largest = nullptr;
  for (const Access& a : dag.info(s).reads) {
    if (!largest || bytes_of(a.tensor) > bytes_of(largest->tensor)) largest = &a;
  }
  return largest && !op.axes().empty() && contiguous_axis(*largest, op.axes()) == &op.axes().back();
}

Plan plan_of(const ComputeDag& dag, int s) {
  const Operation& op = dag.stage(s);
  Plan p;
  p.commutative = op.bodies()[0].as<Reduce>()->combiner->commutative;
  p.heavy = op.bodies()[0].as<Reduce>()->combiner->size() > 1;
  p.points = spatial_points(op);
  p.lanes = access_lanes(dag, s);
  int longest = 0;
  for (size_t i = 0; i < op.reduce_axes().size(); ++i) {
    if (extent_of(op, static_cast<int>(i)) > extent_of(op, longest)) longest = static_cast<int>(i);
  }
  p.k = p.cut = longest;
  const int k = contiguous_reduce_axis(dag, s);
  if (!p.commutative) return p;
  if (k >= 0 && extent_of(op, k) >= kWarp) {
    p.shape = Shape::Rows;
    p.k = k;
    // Another axis than the contiguous one, if there is one: rows stay whole.
    for (size_t i = 0; i < op.reduce_axes().size(); ++i) {
      if (static_cast<int>(i) != k && extent_of(op, static_cast<int>(i)) >= 8)
        p.cut = static_cast<int>(i);
    }
  } else if (k < 0 && along_last_axis(dag, s) && extent_of(op, longest) >= 8) {
    p.shape = Shape::Columns;
  }
  return p;
}

class Builder {
 public:
  Builder(TemplateBuilder& t, const StageGroup& g)
      : t_(t),
        dag_(t.dag()),
        g_(g),
        op_(dag_.stage(g.anchor)),
        r_(t.stage(g.anchor)),
        output_stage_(t.stage(g.output_stage)),
        plan_(plan_of(dag_, g.anchor)),
        sms_(t.target().gpu.sms),
        most_(most_block_threads(t.target().gpu)) {}

  void build() {
    if (!g_.attached) return at_root("");
    // Its host has rows enough for the machine: a kernel of its own would read them once more.
    std::vector<int64_t> where;
    for (int p = 1; p <= g_.deepest; ++p) where.push_back(p);
    if (where.empty()) where.push_back(0);
    Param location = t_.knob("location", where, g_.deepest, "one value per row of the reader");
    t_.set_location(g_.output_stage, location);
    t_.when(location, 0, [&] { at_root("root_"); });
    for (size_t p = 0; p < g_.places.size(); ++p)
      t_.when(location, static_cast<int64_t>(p) + 1, [&] { at(g_.places[p]); });
    for (const auto& place : g_.places) {
      if (place.sharing.options.empty()) continue;
      const Param resident = place.sharing.resident;
      t_.require(
          "'" + op_.name() + "' is computed where the row is resident",
          [=](const TemplateBuilder::Value& v) { return v(location) != 0 || v(resident) == 0; });
    }
  }

 private:
  // In a row of the host, shared as the host shares it.
  void at(const StageGroup::Place& place) {
    const StageRef host = t_.stage(place.stage);
    r_.compute_at(host, place.loop);
    const auto& sharing = place.sharing;
    if (sharing.options.empty()) return unroll_all(r_);
    if (plan_.shape != Shape::Rows) return;
    for_each_option(t_, sharing.threads, sharing.options, [&](int64_t n) {
      // (Fewer vectors than threads: every thread adds up all.)
      if (n * sharing.vector > extent_of(op_, plan_.k)) return;
      t_.when(sharing.resident, 1,
              [&] { reduce_row(t_, r_, plan_.k, n, sharing.vector, 0, host, place.loop); });
      t_.when(sharing.resident, 0, [&] {
        reduce_row(t_, r_, plan_.k, n, sharing.vector, sharing.unroll, host, place.loop);
      });
    });
  }

  void unroll_all(StageRef s) {
    std::vector<int64_t> extents;
    for (const Axis& a : op_.reduce_axes()) extents.push_back(a.extent());
    unroll_short(s, s.all_reduce_axes(), extents, 64);
  }

  void at_root(const std::string& prefix) {
    if (op_.axes().empty()) return to_one_value(prefix);
    const std::vector<int64_t> lengths = part_lengths();
    if (lengths.empty()) return whole(prefix);
    const int64_t wanted = wanted_parts();
    Param split = t_.choice(prefix + "split_reduction", wanted > 1,
                            wanted > 1 ? "too few blocks for the multiprocessors"
                                       : "enough blocks for the multiprocessors");
    t_.when(split, 0, [&] { whole(prefix); });
    t_.when(split, 1, [&] {
      const int64_t extent = extent_of(op_, plan_.cut);
      int64_t chosen = lengths.front();
      for (int64_t l : lengths) {
        if (ceil_div(extent, l) >= wanted) chosen = l;
      }
      Param length = t_.knob(prefix + "part_length", lengths, chosen,
                             "a few blocks of parts to a multiprocessor");
      StageRef parts = r_.rfactor(r_.reduce_axis(plan_.cut), length, false);
      const int64_t rows = plan_.points * ceil_div(extent, chosen);
      if (plan_.shape == Shape::Columns) {
        const int64_t columns = op_.axes().back().extent();
        reduce_columns(t_, parts, parts, plan_.k, columns, chosen, plan_.lanes, value_bytes(), 8,
                       prefix + "part_");
        // (Little memory: single elements make more blocks.)
        reduce_columns(t_, output_stage_, r_, 0, columns, ceil_div(extent, chosen), 1,
                       value_bytes(), 32, prefix + "last_");
        return;
      }
      const bool cut_row = plan_.cut == plan_.k;
      reduce_rows(t_, parts, parts, plan_.k, cut_row ? chosen : extent_of(op_, plan_.k),
                  plan_.lanes, rows, prefix + "part_",
                  {.length = cut_row ? length : Param(), .heavy = plan_.heavy});
      const int64_t fewest = ceil_div(extent, lengths.back());
      if (fewest < kWarp) {
        point_per_thread(t_, output_stage_, g_.anchor, prefix + "last_");
        return;
      }
      // The parts of a row lie side by side for the warp that combines them.
      std::vector<StageRef::StorageDim> dims;
      for (int d = 1; d < parts.num_axes(); ++d) dims.push_back({d});
      dims.push_back({0});
      parts.layout(dims);
      reduce_rows(t_, output_stage_, r_, 0, fewest, 1, plan_.points, prefix + "last_");
    });
  }

  void whole(const std::string& prefix) {
    switch (plan_.shape) {
      case Shape::Rows:
        reduce_rows(t_, output_stage_, r_, plan_.k, extent_of(op_, plan_.k), plan_.lanes,
                    plan_.points, prefix, {.by_clusters = true, .heavy = plan_.heavy});
        return;
      case Shape::Columns:
        return reduce_columns(t_, output_stage_, r_, plan_.k, op_.axes().back().extent(),
                              extent_of(op_, plan_.k), plan_.lanes, value_bytes(), 8, prefix);
      case Shape::Points: point_per_thread(t_, output_stage_, g_.anchor, prefix); return;
    }
  }

  int64_t value_bytes() const {
    int64_t bytes = 0;
    for (int o = 0; o < op_.num_outputs(); ++o) bytes += op_.output(o).dtype().bytes();
    return bytes;
  }

  // How many parts keep the machine busy; 1: no cut is needed.
  int64_t wanted_parts() const {
    int64_t blocks = plan_.points;
    if (plan_.shape == Shape::Columns) {
      const int64_t columns = op_.axes().back().extent();
      blocks = plan_.points / columns * ceil_div(columns, kWarp * plan_.lanes);
    }
    const int64_t extent = extent_of(op_, plan_.cut);
    // A part must be worth a block, and all of it another kernel.
    const int64_t most = plan_.shape == Shape::Columns ? extent / 32
                         : plan_.cut == plan_.k        ? extent / 4096
                                                       : extent;
    // A row keeps up to 1024 threads busy, a strip of columns 256.
    const int64_t enough = plan_.shape == Shape::Columns || plan_.heavy ? 2 * sms_ : sms_;
    if (blocks >= enough || stage_bytes(dag_, g_.anchor) < 1 << 20) return 1;
    // (argmax of 256 rows of 65536: two parts each 20.6 us, whole 21.9.)
    const int64_t parts = plan_.heavy ? 4 * sms_ / blocks : ceil_div(4 * sms_, blocks);
    return std::max<int64_t>(1, std::min(most, parts));
  }

  // Lengths of parts to choose from; none where no cut is sensible.
  std::vector<int64_t> part_lengths() const {
    if (!plan_.commutative || plan_.shape == Shape::Points) return {};
    const int64_t extent = extent_of(op_, plan_.cut);
    const int64_t least = plan_.shape == Shape::Columns ? 8
                          : plan_.cut == plan_.k        ? kWarp * plan_.lanes
                                                        : 1;
    std::vector<int64_t> out;
    for (int64_t parts = 256; parts >= 2; parts /= 2) {
      int64_t length = ceil_div(extent, parts);
      if (plan_.shape == Shape::Rows && plan_.cut == plan_.k)
        length = ceil_div(length, kWarp * plan_.lanes) * kWarp * plan_.lanes;
      if (length >= least && length < extent &&
          std::find(out.begin(), out.end(), length) == out.end())
        out.push_back(length);
    }
    std::sort(out.begin(), out.end());
    // Whole warps of parts, if there are to be that many: see at_root.
    if (plan_.shape == Shape::Rows && wanted_parts() >= kWarp)
      std::erase_if(out, [&](int64_t l) { return ceil_div(extent, l) < kWarp; });
    return out;
  }

  // No loop to hang partial results on: blocks leave whole warps of parts, and the threads of one
  // block combine them. Either the last to finish, or one of another kernel.
  void to_one_value(const std::string& prefix) {
    if (!plan_.commutative) return;
    const int64_t extent = extent_of(op_, plan_.cut);
    auto parts_of = [=](int64_t length) { return ceil_div(extent, length); };
    std::vector<int64_t> lengths;
    for (int64_t parts = kWarp; parts <= most_; parts *= 2) {
      const int64_t length = ceil_div(extent, parts);
      if (parts_of(length) == parts) lengths.push_back(length);
    }
    if (lengths.empty()) {
      if (extent < kWarp) return;
      // A thread a part.
      const int64_t threads = std::min(extent / kWarp * kWarp, most_);
      StageRef parts = r_.rfactor(r_.reduce_axis(plan_.cut), threads, true);
      point_per_thread(t_, parts, parts.id(), prefix + "part_");
      r_.bind(r_.reduce_axis(0), LoopKind::ThreadX);
      return;
    }
    const bool cut_row = plan_.cut == plan_.k;
    const bool rows = plan_.shape == Shape::Rows &&
                      (cut_row ? lengths.front() : extent_of(op_, plan_.k)) >= kWarp;
    // Two blocks to a multiprocessor, of some work each; a thread for each part in the last one.
    const int64_t vectors =
        cut_row ? most_ : extent_of(op_, plan_.k) / std::max<int64_t>(1, plan_.lanes);
    int64_t chosen = lengths.front();
    for (int64_t length : lengths) {
      const bool worth = !cut_row || length >= 1024;
      if (worth && parts_of(length) <= std::min(2 * sms_, std::max(kWarp, vectors)))
        chosen = length;
    }
    Param length = t_.knob(prefix + "part_length", lengths, chosen,
                           "a few blocks of parts to a multiprocessor");
    StageRef parts = r_.rfactor(r_.reduce_axis(plan_.cut), length, false);
    if (rows) {
      const int64_t row = cut_row ? t_.chosen(length) : extent_of(op_, plan_.k);
      const int64_t least = parts_of(chosen);
      const RowsKnobs knobs =
          reduce_rows(t_, parts, parts, plan_.k, row, plan_.lanes, least, prefix + "part_",
                      {.length = cut_row ? length : Param(),
                       .threads = 2 * least * plan_.lanes <= row ? 2 * least : least});
      const bool enough = parts_of(chosen) <= t_.chosen(knobs.threads);
      Param one = t_.choice(prefix + "one_launch", enough,
                            enough ? "the last block has a thread for each part"
                                   : "more parts than threads in a block");
      t_.require("the last block has a thread for each part", [=](const TemplateBuilder::Value& v) {
        return v(one) == 0 ||
               (v(knobs.rows_per_block) == 1 && parts_of(v(length)) <= v(knobs.threads));
      });
      t_.when(one, 1, [&] { r_.by_last_block(); });
    } else {
      point_per_thread(t_, parts, parts.id(), prefix + "part_");
    }
    r_.bind(r_.reduce_axis(0), LoopKind::ThreadX);
  }

  TemplateBuilder& t_;
  const ComputeDag& dag_;
  const StageGroup& g_;
  const Operation& op_;
  StageRef r_, output_stage_;
  const Plan plan_;
  const int64_t sms_;
  const int64_t most_;  // threads of a block
};

void build(TemplateBuilder& t, const StageGroup& g) { Builder(t, g).build(); }

// Ahead of the template of complex reductions where one operand is streamed.
HEDDLE_REGISTER_META_TEMPLATE({"cuda_simple_reduction", 1, matches, build});

}  // namespace
}  // namespace heddle::meta
