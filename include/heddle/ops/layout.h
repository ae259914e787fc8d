// Where the channels of an image, a volume or a signal are.
#pragma once

#include <cstdint>

namespace heddle::ops {

enum class Layout : uint8_t {
  ChannelsFirst,  ///< NCW, NCHW, NCDHW
  ChannelsLast,   ///< NWC, NHWC, NDHWC
};
inline constexpr Layout NCHW = Layout::ChannelsFirst, NHWC = Layout::ChannelsLast;

}  // namespace heddle::ops
