#include "schedule/groups/image_chain.h"

#include <algorithm>

namespace heddle {
namespace {

// Images have these dimensions: batch, rows, columns, channels.
constexpr size_t kImage = 4, kRows = 1, kColumns = 2, kChannels = 3;
// Fewer channels, or fewer points, give no register tile.
constexpr int64_t kLeastExtent = 8;

bool is_image(const Operation& op) {
  if (op.is_placeholder() || op.num_outputs() != 1 || op.axes().size() != kImage ||
      op.output(0).dtype() != f32)
    return false;
  // The batch is no longer than the image, so that tiles are made of columns or rows of the image.
  const auto extent = [&](size_t d) { return op.axes()[d].extent(); };
  return extent(kChannels) >= kLeastExtent && extent(0) < std::max(extent(kRows), extent(kColumns));
}

bool runs_inside(const ComputeDag& dag, int s) {
  const StageInfo& info = dag.info(s);
  return info.stage_class != StageClass::Placeholder && !info.is_output && !info.precomputable &&
         !info.scan && info.case_periods.empty() && !info.consumers.empty() &&
         is_image(dag.stage(s));
}

// Whether dimension `d` of the read has the axis at that position with a positive coefficient, and
// no other axis of the result.
bool along_own_axis(const Operation& op, const Access& a, size_t d) {
  if (!a.affine[d]) return false;
  for (size_t i = 0; i < op.axes().size(); ++i) {
    const int64_t c = a.affine[d]->coefficient(op.axes()[i].var());
    if (op.axes()[i].extent() > 1 && (i == d ? c <= 0 : c != 0)) return false;
  }
  return true;
}

int64_t window_along(const Operation& op, const Access& a, size_t d) {
  int64_t reach = 1;
  for (const Axis& k : op.reduce_axes())
    reach += a.affine[d]->coefficient(k.var()) * (k.extent() - 1);
  return reach;
}

}  // namespace

ImageRead image_read(const ComputeDag& dag, int s) {
  ImageRead none, found;
  const Operation& op = dag.stage(s);
  if (dag.info(s).stage_class != StageClass::ComplexReduction || !is_image(op)) return none;
  for (const Access& a : dag.info(s).reads) {
    if (a.tensor.op()->is_placeholder() || dag.info(a.producer).precomputable) continue;
    if (found.image != nullptr || a.affine.size() != kImage) return none;
    found.image = &a;
  }
  if (found.image == nullptr) return none;
  const Access& a = *found.image;
  for (const size_t d : {size_t{0}, kRows, kColumns}) {
    if (!along_own_axis(op, a, d)) return none;
  }
  if (!a.affine[kChannels]) return none;
  found.window = window_along(op, a, kRows);
  found.stride = std::max<int64_t>(1, a.affine[kRows]->coefficient(op.axes()[kRows].var()));
  const int64_t channels = window_along(op, a, kChannels);
  const int64_t own = a.affine[kChannels]->coefficient(op.axes()[kChannels].var());
  found.by_channels = own == 1 && channels == 1;
  found.by_rows = own == 0 && channels == a.tensor.extent(kChannels) && found.window == 1 &&
                  window_along(op, a, kColumns) == 1;
  return found.by_channels || found.by_rows ? found : none;
}

ImageChain::ImageChain(const ComputeDag& dag, int anchor)
    : dag_(dag), inside_(static_cast<size_t>(dag.size())) {
  inside_[static_cast<size_t>(anchor)] = 1;
  const ImageRead first = image_read(dag, anchor);
  if (first.image == nullptr || !add_before(anchor) || !first.by_rows) return;
  const int product = found_.back().ends.product;
  if (image_read(dag, product).by_channels) add_before(product);
}

// Adds the convolution whose image `reader` reads, if all that reads it is computed in the blocks.
bool ImageChain::add_before(int reader) {
  const Access& image = *image_read(dag_, reader).image;
  std::vector<int> members;
  int product = -1;
  for (int s = image.producer; s >= 0 && product < 0; --s) {
    const std::vector<int>& readers = dag_.info(s).consumers;
    const bool read_inside = std::all_of(readers.begin(), readers.end(), [&](int r) {
      return inside_[static_cast<size_t>(r)] != 0;
    });
    if (!runs_inside(dag_, s) || !read_inside) continue;
    if (dag_.info(s).stage_class == StageClass::ComplexReduction) product = s;
    if (dag_.stage(s).is_reduction() && product < 0) continue;
    inside_[static_cast<size_t>(s)] = 1;
    members.push_back(s);
  }
  if (product < 0) {
    for (const int s : members) inside_[static_cast<size_t>(s)] = 0;
    return false;
  }
  found_.push_back(
      product_part(dag_, product, [&](int s) { return inside_[static_cast<size_t>(s)] != 0; }));
  return true;
}

const StageGroup::Part* ImageChain::part_of(int s) const {
  for (const ProductPart& p : found_) {
    if (std::find(p.stages.begin(), p.stages.end(), s) != p.stages.end()) return &p.ends;
  }
  return nullptr;
}

}  // namespace heddle
