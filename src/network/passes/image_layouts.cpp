// Chooses the layout of the images between convolutions, by their size: the declared one, channels
// innermost (channels_last.cpp) or channels in blocks (channels_blocked.cpp). Arguments and results
// of the network keep their layout.
#include "network/passes/image_layouts.h"

#include <algorithm>
#include <map>
#include <string>

#include "heddle/support/error.h"
#include "network/passes/graph_pass.h"
#include "network/passes/layout_images.h"

namespace heddle::network {
namespace {

constexpr const char *kLast = "channels_last", *kBlocked = "channels_blocked";

/// The number of channels in a block: the elements of a vector of f32, in which sums are computed.
int64_t block_for(const Target& target) {
  constexpr int kSumBytes = 4;
  return target.is_cuda() ? 1 : target.vector_lanes(kSumBytes);
}

class Chooser {
 public:
  Chooser(const PassContext& context, const Images& images)
      : context_(context),
        images_(images),
        block_(block_for(context.target)),
        often_(concatenates_often(images)) {}

  ImageLayouts choose() const {
    const auto size = static_cast<size_t>(images_.dag().size());
    ImageLayouts layouts{.of = std::vector(size, ImageLayout::Declared),
                         .block = block_,
                         .lay_weights = context_.target.is_cuda()};
    const std::vector<char> whole =
        block_ > 1 ? whole_blocks(images_, block_) : std::vector<char>(size);
    const std::map<std::string, bool> blocked =
        settings(kBlocked, whole, context_.options.channels_blocked,
                 "images of this size have their channels in blocks of " + std::to_string(block_));
    const std::vector<char> all =
        often_ ? std::vector<char>(size) : std::vector<char>(size, char{1});
    const std::map<std::string, bool> last =
        settings(kLast, all, context_.options.channels_last,
                 "images of this size have their channels innermost");
    for (size_t s = 0; s < size; ++s) {
      if (!images_.chosen(static_cast<int>(s))) continue;
      const std::string at = images_.size_of(static_cast<int>(s));
      if (whole[s] != 0 && blocked.at(at)) {
        layouts.of[s] = ImageLayout::ChannelsBlocked;
      } else if (all[s] != 0 && last.at(at)) {
        layouts.of[s] = ImageLayout::ChannelsLast;
      }
    }
    return layouts;
  }

 private:
  /// The settings of the choices of a kind, by the size of the images; a size is one place.
  std::map<std::string, bool> settings(const char* kind, const std::vector<char>& possible,
                                       bool usual, const std::string& text) const {
    std::map<std::string, bool> by_size;
    for (int s = 0; s < images_.dag().size(); ++s) {
      if (images_.chosen(s) && possible[static_cast<size_t>(s)] != 0)
        by_size[images_.size_of(s)] = usual;
    }
    for (auto& [size, on] : by_size) on = context_.choices.on(kind, size, usual, text);
    return by_size;
  }

  const PassContext& context_;
  const Images& images_;
  const int64_t block_;
  const bool often_;
};

/// Leaves the group of images that stage `failed` belongs to, or that it reads, as it was declared.
/// Returns whether there is one with blocks.
bool leave_blocks(const Images& images, int failed, ImageLayouts& layouts) {
  std::vector<int> of{failed};
  const std::vector<int>& read = images.dag().info(failed).producers;
  of.insert(of.end(), read.begin(), read.end());
  bool any = false;
  for (const int s : of) {
    if (layouts.at(s) != ImageLayout::ChannelsBlocked) continue;
    for (int i = 0; i < images.dag().size(); ++i) {
      if (!images.chosen(i) || images.group_of(i) != images.group_of(s)) continue;
      layouts.of[static_cast<size_t>(i)] = ImageLayout::Declared;
      any = true;
    }
  }
  return any;
}

}  // namespace

std::vector<Tensor> image_layouts(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  const Images images(dag);
  if (images.count() == 0) return dag.outputs();
  ImageLayouts layouts = Chooser(context, images).choose();
  const auto count = [&](ImageLayout l) {
    return std::count(layouts.of.begin(), layouts.of.end(), l);
  };
  if (count(ImageLayout::Declared) == std::ssize(layouts.of)) return dag.outputs();
  LaidImages laid = lay_images(dag, layouts);
  while (laid.failed >= 0) {
    HEDDLE_ICHECK(leave_blocks(images, laid.failed, layouts),
                  "'" + dag.stage(laid.failed).name() + "' cannot be declared in another layout");
    laid = lay_images(dag, layouts);
  }
  const auto log = [&](ImageLayout layout, const char* pass, const std::string& what) {
    if (const auto n = count(layout); n > 0)
      context.log.push_back({pass, std::to_string(n) + " stages are images with their " + what});
  };
  log(ImageLayout::ChannelsBlocked, kBlocked,
      "channels in blocks of " + std::to_string(layouts.block));
  log(ImageLayout::ChannelsLast, kLast, "channels innermost");
  return laid.outputs;
}

}  // namespace heddle::network
