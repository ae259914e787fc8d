// What padding a product gains on a GPU (pad_product.cpp).
#pragma once

#include <vector>

#include "dag/rewrites/rewrite_parts.h"

namespace heddle::dag {

/// The padded extents of the axes, in the order of the stage's; the axis's own where it stays.
struct Padding {
  std::vector<int64_t> spatial, reduce;
  const Access* operands[2];
};

constexpr int64_t kBoxPitch = 16;  // bytes: TMA loads rows of multiples of it
/// The few channels that are one vector: as many bytes as one copy to shared memory takes at least, and of longer
/// numbers eight bytes.
constexpr int64_t short_vector(int bytes) { return bytes == 1 ? 4 : 8 / bytes; }

/// Whether the stage sums over windows, and `axis` over their channels, which are fewer than `to`
/// and lie side by side in an operand.
bool is_few_channels(const Operation& op, const Access* const operands[2], const Axis& axis,
                     int64_t to);
bool is_narrow(const Access& a);
/// Whether multiples of `to` are rows of boxes of windows.
bool is_for_windows(const Operation& op, const Access& a, int64_t to);

/// The number of channels, where the padding makes a vector of each tap's few channels; else 0.
int64_t few_channels(const Operation& op, const Padding& p);

/// How many times faster wgmma computes the product from padded copies than mma.sync does from rows
/// that TMA cannot load; 0 where TMA can load both operands as they are, or cannot even then.
double gain_of_boxes(const RewriteSite& site, const Padding& p, double points,
                     const Target& target);
/// How many times faster a GPU computes windows of few channels when each tap is a vector; 0 where
/// there are no such windows.
double gain_of_channels(const RewriteSite& site, const Padding& p, double points,
                        const Target& target);
/// How many times faster wgmma computes windows whose channels are whole rows of boxes than mma.sync does from
/// computed addresses; 0 where TMA can load no windows, or can load them as they are. The rates are those of an H200
/// for sums of 16-bit floats.
double gain_of_windows(const RewriteSite& site, const Padding& p, double points,
                       const Target& target);

}  // namespace heddle::dag
