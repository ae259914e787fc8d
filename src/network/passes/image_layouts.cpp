// Chooses the layout of the images between convolutions, by their size: the declared one, or
// channels innermost (channels_last.cpp). Arguments and results of the network keep their layout.
#include "network/passes/image_layouts.h"

#include <algorithm>
#include <map>
#include <string>

#include "network/passes/graph_pass.h"
#include "network/passes/layout_images.h"

namespace heddle::network {
namespace {

/// Whether the images that `s` shares its channels with lie between arguments and results: none is a sum,
/// as padded arguments are not, and no other image is made of them. On a GPU the kernel that needs such
/// an image with its channels innermost copies it.
bool is_between_arguments(const Images& images, int s) {
  const ComputeDag& dag = images.dag();
  const auto in_group = [&](int t) {
    return images.chosen(t) && images.group_of(t) == images.group_of(s);
  };
  for (int t = 0; t < dag.size(); ++t) {
    if (!in_group(t)) continue;
    const std::vector<int>& readers = dag.info(t).consumers;
    if (dag.stage(t).is_reduction() ||
        std::ranges::any_of(readers, [&](int r) { return images.chosen(r) && !in_group(r); }))
      return false;
  }
  return true;
}

bool usual(const PassContext& context, const Images& images, int s) {
  return context.enabled && !(context.target.is_cuda() && is_between_arguments(images, s));
}

ImageLayouts choose(const PassContext& context, const Images& images) {
  const int size = images.dag().size();
  ImageLayouts layouts{.of = std::vector(static_cast<size_t>(size), ImageLayout::Declared),
                       .lay_weights = context.target.is_cuda()};
  if (concatenates_often(images)) return layouts;
  std::map<std::string, bool> by_size;  // a size is one place
  for (int s = 0; s < size; ++s) {
    if (images.chosen(s)) by_size[images.size_of(s)] |= usual(context, images, s);
  }
  for (auto& [at, on] : by_size)
    on = context.choices.on(ChoiceKind::ChannelsLast, at, on,
                            "images of this size have their channels innermost");
  for (int s = 0; s < size; ++s) {
    if (images.chosen(s) && by_size.at(images.size_of(s)))
      layouts.of[static_cast<size_t>(s)] = ImageLayout::ChannelsLast;
  }
  return layouts;
}

}  // namespace

std::vector<Tensor> channels_last(const PassContext& context) {
  const ComputeDag& dag = context.dag;
  const Images images(dag);
  if (images.count() == 0) return dag.outputs();
  const ImageLayouts layouts = choose(context, images);
  const auto count = std::count(layouts.of.begin(), layouts.of.end(), ImageLayout::ChannelsLast);
  if (count == 0) return dag.outputs();
  context.changed(std::to_string(count) + " stages are images with their channels innermost");
  return lay_images(dag, layouts);
}

}  // namespace heddle::network
