#include "network/passes/images.h"

#include <algorithm>
#include <numeric>

#include "dag/patterns/convolution.h"
#include "network/passes/choice_list.h"

namespace heddle::network {

bool reads_groups(const Access& a, const Axis& channel) {
  return a.indices.size() == Images::kRank && !a.affine[1] && uses_var(a.indices[1], channel.var());
}

Images::Images(const ComputeDag& dag) : dag_(dag), chosen_(static_cast<size_t>(dag.size())) {
  for (int s = 0; s < dag.size(); ++s) {
    if (may_change(s) && !is_one_pixel(s) && (convolves(s) || convolves_channels(s))) choose(s);
  }
  leave_results();
  find_groups();
}

int Images::count() const {
  return static_cast<int>(std::count(chosen_.begin(), chosen_.end(), 1));
}

std::string Images::size_of(int s) const {
  if (!dag_.stage(s).is_reduction()) {
    for (const int p : dag_.info(s).producers) {
      if (chosen(p)) return size_of(p);
    }
  }
  const std::vector<Axis>& axes = dag_.stage(s).axes();
  return by_extents({axes[2].extent(), axes[3].extent()});
}

int Images::group_of(int s) const {
  while (parent_[static_cast<size_t>(s)] != s) s = parent_[static_cast<size_t>(s)];
  return s;
}

/// Whether stage `s` is a convolution of images with the channels in their second dimension.
bool Images::convolves(int s) const {
  dag::Convolution c;
  return dag::match_convolution(dag_, s, &c).empty() && c.k == 1 && c.y == 2 && c.x == 3 &&
         c.image_c == 1 && c.image_y == 2 && c.image_x == 3;
}

/// Whether stage `s` convolves each channel of such an image, or each group of channels, with
/// filters of its own. The gradient of a filter does so too, but sums over the images of a batch.
bool Images::convolves_channels(int s) const {
  const Access* operands[2];
  if (!dag::match_contraction(dag_, s, operands).empty()) return false;
  const Operation& op = dag_.stage(s);
  return std::any_of(std::begin(operands), std::end(operands), [&](const Access* a) {
    const auto moves_along = [&](size_t d) {
      return a->affine[d] && a->affine[d]->coefficient(op.axes()[d].var()) != 0 &&
             a->affine[d]->terms.size() == 2;
    };
    if (a->indices.size() != kRank || !moves_along(2) || !moves_along(3)) return false;
    if (!as_int(a->indices[0]) && !uses_var(a->indices[0], op.axes()[0].var())) return false;
    const Axis& channel = op.axes()[1];
    return reads_groups(*a, channel) ||
           (a->affine[1] && a->affine[1]->coefficient(channel.var()) == 1);
  });
}

/// Whether stage `s` could be stored in another layout.
bool Images::may_change(int s) const {
  const Operation& op = dag_.stage(s);
  const StageInfo& info = dag_.info(s);
  return !op.is_placeholder() && !info.is_output && !info.precomputable && !info.scan &&
         op.num_outputs() == 1 && op.axes().size() == kRank;
}

bool Images::is_one_pixel(int s) const {
  const std::vector<Axis>& axes = dag_.stage(s).axes();
  return is_const(axes[2]->extent, 1) && is_const(axes[3]->extent, 1);
}

/// Takes stage `s`, and all images that it reads or that read it.
void Images::choose(int s) {
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

/// Leaves out what is computed in one loop nest with a result of the network: the stages that only
/// element-wise stages before the result read.
void Images::leave_results() {
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

void Images::find_groups() {
  parent_.resize(chosen_.size());
  std::iota(parent_.begin(), parent_.end(), 0);
  for (int s = 0; s < dag_.size(); ++s) {
    if (!chosen(s)) continue;
    const Axis& channel = dag_.stage(s).axes()[1];
    for (const Access& a : dag_.info(s).reads) {
      if (chosen(a.producer) && uses_var(a.indices[1], channel.var()))
        parent_[static_cast<size_t>(group_of(s))] = group_of(a.producer);
    }
  }
}

/// Whether all reads of stage `s` by `reader` satisfy `holds`.
template <class F>
bool Images::all_reads(int s, int reader, F holds) const {
  const std::vector<Access>& reads = dag_.info(reader).reads;
  return std::all_of(reads.begin(), reads.end(),
                     [&](const Access& a) { return a.producer != s || holds(a); });
}

/// Whether `reader` goes over the rows and columns of stage `s` as over its own, which may be by parts
/// of them, as a larger image does (row / 2), and the gradient of pooling.
bool Images::reads_image(int s, int reader) const {
  const std::vector<Axis>& axes = dag_.stage(reader).axes();
  return all_reads(s, reader, [&](const Access& a) {
    const auto goes_along = [&](size_t d) {
      return a.affine[d] ? a.affine[d]->coefficient(axes[d].var()) != 0
                         : uses_var(a.indices[d], axes[d].var());
    };
    return a.affine[0] && a.affine[1] && goes_along(2) && goes_along(3);
  });
}

/// Whether `reader` computes each channel of one pixel from that of stage `s`.
bool Images::follows_pixel(int s, int reader) const {
  const std::vector<Access>& reads = dag_.info(reader).reads;
  return !dag_.stage(reader).is_reduction() && is_one_pixel(reader) &&
         std::all_of(reads.begin(), reads.end(), [&](const Access& a) {
           return a.producer != s || a.pattern == AccessPattern::Elementwise;
         });
}

/// Whether `reader` reduces each channel of stage `s` to one element.
bool Images::sums_up(int s, int reader) const {
  const Operation& op = dag_.stage(reader);
  return op.is_reduction() && all_reads(s, reader, [&](const Access& a) {
           return std::ranges::all_of(a.affine, [](const auto& i) { return !!i; }) &&
                  a.affine[1]->coefficient(op.axes()[1].var()) == 1;
         });
}

}  // namespace heddle::network
