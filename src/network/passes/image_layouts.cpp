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

ImageLayouts choose(const PassContext& context, const Images& images) {
  const int size = images.dag().size();
  ImageLayouts layouts{.of = std::vector(static_cast<size_t>(size), ImageLayout::Declared),
                       .lay_weights = context.target.is_cuda()};
  if (concatenates_often(images)) return layouts;
  std::map<std::string, bool> by_size;  // a size is one place
  for (int s = 0; s < size; ++s) {
    if (images.chosen(s)) by_size[images.size_of(s)] = context.enabled;
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
