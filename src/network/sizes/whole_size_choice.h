// Which of several sets of kernels over sizes a network takes, by times of whole calls.
#pragma once

#include <cstddef>
#include <vector>

namespace heddle::network {

/// Samples of whole calls at each size, by rival. Rival 0 stands: the kernels of
/// a plan, or the static choice.
using WholeCalls = std::vector<std::vector<std::vector<double>>>;

/// The sizes at which rival `r` is not faster than rival 0 beyond noise.
std::vector<bool> not_faster_at(const WholeCalls& calls, size_t r);

/// The rival of least expected time over the sizes, which are expected as often as `weights` say.
/// Rival 0 stays where no other is faster by more than noise.
size_t best_rival(const WholeCalls& calls, const std::vector<double>& weights);

}  // namespace heddle::network
