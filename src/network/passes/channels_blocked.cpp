// Stores the images between convolutions with their channels in blocks of the length of a vector
// (NCHWc; Liu et al. 2019, "Optimizing CNN Model Inference on CPUs").
//
//   y[n, k, h, w] = sum over c, r, s of x[n, c, h + r, w + s] * weight[k, c, r, s]   (before)
//   z[n, k, h, w] = max(y[n, k, h, w], 0)
//
//   laid[K, C, r, s, c, k] = weight[K * b + k, C * b + c, r, s]   once                (after)
//   y[n, K, h, w, k] = sum over C, r, s, c of x[n, C, h + r, w + s, c] * laid[K, C, r, s, c, k]
//   z[n, K, h, w, k] = max(y[n, K, h, w, k], 0)
//
// Each vector of results is a line of memory, and so are the channels of a pixel that a block of
// the reduction reads, whatever the number of channels is: no two rows of an image compete for the
// same sets of a cache, as pixels of many channels do. Channels are concatenated in place as in the
// declared layout. Groups of images whose channels are no whole blocks stay as they are.
#include <algorithm>

#include "network/passes/image_layouts.h"
#include "network/passes/layout_images.h"

namespace heddle::network {
namespace {

int divisions(const Expr& e) {
  int count = 0;
  visit(e, [&](const Expr& x) {
    const Binary* b = x.as<Binary>();
    if (b != nullptr && (b->op == BinaryOp::FloorDiv || b->op == BinaryOp::FloorMod)) ++count;
  });
  return count;
}

class WholeBlocks {
 public:
  WholeBlocks(const Images& images, int64_t block) : images_(images), dag_(images.dag()) {
    layouts_.block = block;
    layouts_.of.assign(static_cast<size_t>(dag_.size()), ImageLayout::Declared);
    for (int s = 0; s < dag_.size(); ++s) {
      if (images.chosen(s)) layouts_.of[static_cast<size_t>(s)] = ImageLayout::ChannelsBlocked;
    }
  }

  std::vector<char> find() {
    for (int s = 0; s < dag_.size(); ++s) {
      if (images_.chosen(s) && !has_whole_blocks(s)) leave_group_of(s);
    }
    // A group that stays as it is has other axes, so that its readers are looked at again.
    while (leave_divided()) {
    }
    std::vector<char> found;
    for (int s = 0; s < dag_.size(); ++s) found.push_back(blocked(s));
    return found;
  }

 private:
  bool blocked(int s) const { return layouts_.at(s) == ImageLayout::ChannelsBlocked; }

  bool has_whole_blocks(int s) const {
    const int64_t* channels = as_int(dag_.stage(s).axes()[1]->extent);
    return channels != nullptr && *channels % layouts_.block == 0;
  }

  void leave_group_of(int s) {
    const int group = images_.group_of(s);
    for (int i = 0; i < dag_.size(); ++i) {
      if (images_.chosen(i) && images_.group_of(i) == group)
        layouts_.of[static_cast<size_t>(i)] = ImageLayout::Declared;
    }
  }

  /// Leaves the groups of images whose channels an image or a sum reads across blocks. Other stages
  /// copy channels, and may divide. Returns whether any group was left.
  bool leave_divided() {
    bool any = false;
    for (int s = 0; s < dag_.size(); ++s) {
      if (dag_.stage(s).is_placeholder() || !(blocked(s) || dag_.stage(s).is_reduction())) continue;
      for (const Access& a : dag_.info(s).reads) {
        if (!blocked(a.producer) || !divides(s, a)) continue;
        leave_group_of(a.producer);
        any = true;
      }
    }
    return any;
  }

  bool divides(int s, const Access& a) const {
    const StageAxes axes(dag_, s, layouts_);
    const std::vector<Expr> at = indices_in(
        ImageLayout::ChannelsBlocked, layouts_.block,
        {a.indices[0], axes.index(a.indices[1]), a.indices[2], a.indices[3]}, axes.ranges);
    return divisions(at[1]) + divisions(at.back()) > divisions(a.indices[1]);
  }

  const Images& images_;
  const ComputeDag& dag_;
  ImageLayouts layouts_;
};

}  // namespace

std::vector<char> whole_blocks(const Images& images, int64_t block) {
  return WholeBlocks(images, block).find();
}

}  // namespace heddle::network
