// What decides about the layout of images, for the pass channels_last (graph_pass.h).
#pragma once

#include <vector>

#include "network/passes/images.h"

namespace heddle::network {

/// Whether some image is concatenated along the channels by more than two stages. With channels
/// last each of them copies it; with channels outermost it lies in the whole (concat_in_place).
bool concatenates_often(const Images& images);

}  // namespace heddle::network
