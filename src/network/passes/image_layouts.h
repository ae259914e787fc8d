// What decides about the layout of images, for the pass that declares them in it (image_layouts in
// graph_pass.h).
#pragma once

#include <vector>

#include "network/passes/images.h"

namespace heddle::network {

/// Whether some image is concatenated along the channels by more than two stages. With channels
/// last each of them copies it; with channels outermost or in blocks it lies in the whole
/// (concat_in_place).
bool concatenates_often(const Images& images);

/// The images, by stage, whose channels can lie in blocks of `block` with no division in an index
/// of an image or of a sum: the channels of all images of the group are whole blocks, and what
/// joins or takes apart channels does so between blocks.
std::vector<char> whole_blocks(const Images& images, int64_t block);

}  // namespace heddle::network
