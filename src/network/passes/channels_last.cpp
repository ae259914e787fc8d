// Stores the images between convolutions with their channels innermost.
//
//   y[n, k, h, w] = sum over c, r, s of x[n, c, h + r, w + s] * weight[k, c, r, s]   (before)
//   z[n, k, h, w] = max(y[n, k, h, w], 0)
//
//   y[n, h, w, k] = sum over c, r, s of x[n, h + r, w + s, c] * weight[k, c, r, s]   (after)
//   z[n, h, w, k] = max(y[n, h, w, k], 0)
//
// Vectors of channels then lie one after another for any size of the image, and rows of the image
// need no copy. Weights of a depthwise convolution are read by vectors of channels too, so they get
// the same layout, once. Other weights are packed in any case. A stage takes part where it is an
// image beside a convolution or beside another such stage, or sums up such an image. Arguments and
// results of the network keep their layout. Concatenating channels copies them in this layout, and
// is done in place in the other. So the pass leaves a network as it is whose images are
// concatenated by many stages. Kernels for GPUs load such images by vectors, too.
#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include "dag/convolution.h"
#include "dag/map_loads.h"
#include "heddle/support/error.h"
#include "network/passes/graph_pass.h"
#include "network/passes/map_graph.h"

namespace heddle::network {
namespace {

constexpr int kImage = 4;  // dimensions: batch, channels, rows, columns

template <class T>
std::vector<T> with_channels_last(const std::vector<T>& of) {
  return {of[0], of[2], of[3], of[1]};
}

/// Which stages are images with the channels in their second dimension.
class Images {
 public:
  explicit Images(const ComputeDag& dag) : dag_(dag), chosen_(static_cast<size_t>(dag.size())) {
    for (int s = 0; s < dag.size(); ++s) {
      dag::Convolution c;
      if (!may_change(s) || is_one_pixel(s) || !dag::match_convolution(dag, s, &c).empty())
        continue;
      if (c.k == 1 && c.y == 2 && c.x == 3 && c.image_c == 1 && c.image_y == 2 && c.image_x == 3)
        choose(s);
    }
    leave_results();
  }

  /// Leaves out the images of the sizes that keep their layout.
  void leave(const PassContext& context) {
    std::map<std::string, bool> usual, kept;  // by size; a size is one place
    for (int s = 0; s < dag_.size(); ++s) {
      if (chosen(s)) usual[size_of(s)] = context.enabled;
    }
    for (const auto& [size, usually] : usual) {
      kept[size] = context.choices.on("channels_last", size, usually,
                                      "images of this size have their channels innermost");
    }
    std::vector<int> leaves;
    for (int s = 0; s < dag_.size(); ++s) {
      if (chosen(s) && !kept.at(size_of(s))) leaves.push_back(s);
    }
    for (const int s : leaves) chosen_[static_cast<size_t>(s)] = 0;
  }

  bool chosen(int s) const { return chosen_[static_cast<size_t>(s)] != 0; }
  int count() const { return static_cast<int>(std::count(chosen_.begin(), chosen_.end(), 1)); }

 private:
  /// Whether stage `s` could be stored in another layout.
  bool may_change(int s) const {
    const Operation& op = dag_.stage(s);
    const StageInfo& info = dag_.info(s);
    return !op.is_placeholder() && !info.is_output && !info.precomputable && !info.scan &&
           op.num_outputs() == 1 && op.axes().size() == kImage;
  }

  /// The rows and columns of an image; those of the image itself where `s` pads it.
  std::string size_of(int s) const {
    if (!dag_.stage(s).is_reduction()) {
      for (const int p : dag_.info(s).producers) {
        if (chosen(p)) return size_of(p);
      }
    }
    const std::vector<Axis>& axes = dag_.stage(s).axes();
    return by_extents({axes[2].extent(), axes[3].extent()});
  }

  bool is_one_pixel(int s) const {
    const std::vector<Axis>& axes = dag_.stage(s).axes();
    return is_const(axes[2]->extent, 1) && is_const(axes[3]->extent, 1);
  }

  /// Takes stage `s`, and all images that it reads or that read it.
  void choose(int s) {
    std::vector<int> open{s};
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      if (chosen(at)) continue;
      chosen_[static_cast<size_t>(at)] = 1;
      if (is_one_pixel(at)) {
        for (const int c : dag_.info(at).consumers) {
          if (may_change(c) && follows_pixel(at, c)) open.push_back(c);
        }
        continue;
      }
      for (const int p : dag_.info(at).producers) {
        if (may_change(p) && !is_one_pixel(p) && reads_image(p, at)) open.push_back(p);
      }
      for (const int c : dag_.info(at).consumers) {
        if (may_change(c) && (is_one_pixel(c) ? sums_up(at, c) : reads_image(at, c)))
          open.push_back(c);
      }
    }
  }

  /// Leaves out what is computed in one loop nest with a result of the network: the stages that
  /// only element-wise stages before the result read.
  void leave_results() {
    std::vector<char> left(chosen_.size());
    for (int s = dag_.size() - 1; s >= 0; --s) {
      const std::vector<int>& readers = dag_.info(s).consumers;
      left[static_cast<size_t>(s)] =
          dag_.info(s).is_output ||
          (chosen(s) && std::all_of(readers.begin(), readers.end(), [&](int r) {
             const std::vector<Access>& reads = dag_.info(r).reads;
             return left[static_cast<size_t>(r)] != 0 &&
                    std::all_of(reads.begin(), reads.end(), [&](const Access& a) {
                      return a.producer != s || a.pattern == AccessPattern::Elementwise;
                    });
           }));
      if (left[static_cast<size_t>(s)] != 0) chosen_[static_cast<size_t>(s)] = 0;
    }
  }

  /// Whether all reads of stage `s` by `reader` are affine and satisfy `holds`.
  template <class F>
  bool all_reads(int s, int reader, F holds) const {
    const std::vector<Access>& reads = dag_.info(reader).reads;
    return std::all_of(reads.begin(), reads.end(), [&](const Access& a) {
      return a.producer != s ||
             (std::all_of(a.affine.begin(), a.affine.end(), [](const auto& i) { return !!i; }) &&
              holds(a));
    });
  }

  /// Whether `reader` goes over the rows and columns of stage `s` as over its own.
  bool reads_image(int s, int reader) const {
    const std::vector<Axis>& axes = dag_.stage(reader).axes();
    return all_reads(s, reader, [&](const Access& a) {
      return a.affine[2]->coefficient(axes[2].var()) != 0 &&
             a.affine[3]->coefficient(axes[3].var()) != 0;
    });
  }

  /// Whether `reader` computes each channel of one pixel from that of stage `s`.
  bool follows_pixel(int s, int reader) const {
    const std::vector<Access>& reads = dag_.info(reader).reads;
    return !dag_.stage(reader).is_reduction() && is_one_pixel(reader) &&
           std::all_of(reads.begin(), reads.end(), [&](const Access& a) {
             return a.producer != s || a.pattern == AccessPattern::Elementwise;
           });
  }

  /// Whether `reader` reduces each channel of stage `s` to one element.
  bool sums_up(int s, int reader) const {
    const Operation& op = dag_.stage(reader);
    return op.is_reduction() && all_reads(s, reader, [&](const Access& a) {
             return a.affine[1]->coefficient(op.axes()[1].var()) == 1;
           });
  }

  const ComputeDag& dag_;
  std::vector<char> chosen_;
};

/// Whether some image is concatenated along the channels by more than two stages.
bool concatenates_often(const ComputeDag& dag, const Images& images) {
  constexpr int kMostCopies = 2;
  std::vector<int> copies(static_cast<size_t>(dag.size()));
  for (int s = 0; s < dag.size(); ++s) {
    if (!images.chosen(s) || dag.stage(s).is_reduction()) continue;
    std::vector<int> parts;
    for (const int p : dag.info(s).producers) {
      if (images.chosen(p) &&
          !equal(dag.stage(p).axes()[1]->extent, dag.stage(s).axes()[1]->extent))
        parts.push_back(p);
    }
    if (parts.size() < 2) continue;
    for (const int p : parts) ++copies[static_cast<size_t>(p)];
  }
  return std::any_of(copies.begin(), copies.end(), [](int n) { return n > kMostCopies; });
}

/// Whether stage `s` convolves each channel with a filter of its own, weights[channel, 0, r, s].
bool is_depthwise(const ComputeDag& dag, int s, const Tensor& weights) {
  if (!dag.stage(s).is_reduction() || weights.rank() != kImage || weights.extent(1) != 1)
    return false;
  const Axis& channel = dag.stage(s).axes()[1];
  return std::all_of(dag.info(s).reads.begin(), dag.info(s).reads.end(),
                     [&](const Access& a) { return a.depends_on(channel); });
}

/// weights[channel, 0, r, s] as [r, s, 0, channel].
Tensor with_channel_innermost(const Tensor& weights) {
  const char* names[] = {"r", "s", "one", "channel"};
  const int from[] = {2, 3, 1, 0};
  std::vector<Axis> axes;
  for (size_t d = 0; d < std::size(from); ++d)
    axes.emplace_back(names[d], Expr(weights.extent(from[d])), AxisKind::Spatial);
  Expr body = make_load(weights.buffer(), {axes[3], axes[2], axes[0], axes[1]});
  return Operation::make_compute(weights.name() + "_last", std::move(axes), {std::move(body)},
                                 "transpose", weights.op()->where())
      ->output(0);
}

}  // namespace

std::vector<Tensor> channels_last(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  Images images(dag);
  if (images.count() == 0 || concatenates_often(dag, images)) return dag.outputs();
  images.leave(context);
  if (images.count() == 0) return dag.outputs();
  std::map<int, Tensor> weights;  // of depthwise convolutions, by their stage
  std::vector<Ref<const Operation>> now;
  const auto tensor_now = [&](const Tensor& t) {
    return now[static_cast<size_t>(dag.index_of(t.op()))]->output(t.index());
  };
  for (int s = 0; s < dag.size(); ++s) {
    const Operation& op = dag.stage(s);
    now.push_back(dag.stage_ref(s));
    if (op.is_placeholder()) continue;
    bool reads_changed = images.chosen(s);
    std::vector<Expr> bodies = dag::map_loads(op.bodies(), [&](const Load& load) {
      const Tensor before = tensor_of(load.buffer), after = tensor_now(before);
      reads_changed |= !before.same_as(after);
      const int from = dag.index_of(before.op());
      const bool constant = before.op()->is_constant() || dag.info(from).precomputable;
      if (images.chosen(s) && constant && is_depthwise(dag, s, before)) {
        const auto [it, added] = weights.try_emplace(from);
        if (added) it->second = with_channel_innermost(after);
        const std::vector<Expr>& at = load.indices;
        return make_load(it->second.buffer(), {at[2], at[3], at[1], at[0]});
      }
      return make_load(after.buffer(),
                       images.chosen(from) ? with_channels_last(load.indices) : load.indices);
    });
    if (!reads_changed) continue;
    now.back() = declared_again(op, images.chosen(s) ? with_channels_last(op.axes()) : op.axes(),
                                std::move(bodies));
    HEDDLE_ICHECK(now.back(), "'" + op.name() + "' cannot be declared in another layout");
  }
  context.log.push_back(std::to_string(images.count()) +
                        " stages are images with their channels innermost");
  std::vector<Tensor> outputs;
  for (const Tensor& t : dag.outputs()) outputs.push_back(tensor_now(t));
  return outputs;
}

}  // namespace heddle::network
