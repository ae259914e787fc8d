// Where the channels of an image, a volume or a signal are.
#pragma once

#include <cstdint>

namespace heddle::ops {

/// The place of the channels among the dimensions of an activation.
enum class Layout : uint8_t {
  ChannelsFirst,  ///< NCW, NCHW, NCDHW
  ChannelsLast,   ///< NWC, NHWC, NDHWC
};
/// Short names of the two layouts.
inline constexpr Layout NCHW = Layout::ChannelsFirst, NHWC = Layout::ChannelsLast;

}  // namespace heddle::ops
