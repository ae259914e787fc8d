// The order in which products change their types.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace heddle::quantize {

/// A type of a product: what a network with it alone costs and gains.
struct Offer {
  std::string product;
  double error = 0, gain = 0;
};

/// How errors of products add up to that of the network: themselves, or their squares.
enum class Sum : uint8_t { Linear, Squares };
double summed(std::span<const double> errors, Sum how);

/// Positions of offers in the order in which they are taken. Of each product they are those that no
/// mixture of two others of it is better than, from the least error on; a later one of a product replaces the
/// one before. What gains most for the error that it adds comes first.
std::vector<std::size_t> order_of(std::span<const Offer> offers, Sum how);

/// Those of the first `count` of the order that are not replaced by one of them.
std::vector<std::size_t> taken_of(std::span<const Offer> offers, std::span<const std::size_t> order,
                                  std::size_t count);

}  // namespace heddle::quantize
