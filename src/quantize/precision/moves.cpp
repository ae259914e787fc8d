#include "quantize/precision/moves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace heddle::quantize {
namespace {

/// What an error adds to the sum.
double cost_of(double error, Sum how) { return how == Sum::Squares ? error * error : error; }

struct Move {
  size_t offer;
  double rate;  ///< gain for the error that it adds
};

/// The rate of a change from one point to another one with more error.
double rate(double cost, double gain) {
  return cost > 0 ? gain / cost : std::numeric_limits<double>::infinity();
}

/// The moves of one product, whose offers are in the order of their errors: the upper hull of the
/// points (cost, gain) from (0, 0) on, along which rates fall.
std::vector<Move> hull(std::span<const Offer> offers, std::span<const size_t> own, Sum how) {
  std::vector<Move> moves;
  const auto cost = [&](size_t o) { return cost_of(offers[o].error, how); };
  for (const size_t o : own) {
    while (true) {
      const double from_cost = moves.empty() ? 0 : cost(moves.back().offer),
                   from_gain = moves.empty() ? 0 : offers[moves.back().offer].gain;
      const double r = rate(cost(o) - from_cost, offers[o].gain - from_gain);
      if (offers[o].gain <= from_gain) break;
      if (moves.empty() || r < moves.back().rate) {
        moves.push_back({o, r});
        break;
      }
      moves.pop_back();
    }
  }
  return moves;
}

}  // namespace

double summed(std::span<const double> errors, Sum how) {
  double sum = 0;
  for (const double e : errors) sum += cost_of(e, how);
  return how == Sum::Squares ? std::sqrt(sum) : sum;
}

std::vector<size_t> order_of(std::span<const Offer> offers, Sum how) {
  std::map<std::string, std::vector<size_t>> by_product;
  for (size_t o = 0; o < offers.size(); ++o) {
    if (offers[o].gain > 0 && std::isfinite(offers[o].error))
      by_product[offers[o].product].push_back(o);
  }
  std::vector<Move> moves;
  for (auto& [product, own] : by_product) {
    std::stable_sort(own.begin(), own.end(), [&](size_t a, size_t b) {
      return offers[a].error != offers[b].error ? offers[a].error < offers[b].error
                                                : offers[a].gain > offers[b].gain;
    });
    const std::vector<Move> of_product = hull(offers, own, how);
    moves.insert(moves.end(), of_product.begin(), of_product.end());
  }
  std::stable_sort(moves.begin(), moves.end(),
                   [](const Move& a, const Move& b) { return a.rate > b.rate; });
  std::vector<size_t> order;
  for (const Move& m : moves) order.push_back(m.offer);
  return order;
}

std::vector<size_t> taken_of(std::span<const Offer> offers, std::span<const size_t> order,
                             size_t count) {
  std::map<std::string, size_t> last;
  for (size_t i = 0; i < count; ++i) last[offers[order[i]].product] = order[i];
  std::vector<size_t> taken;
  for (size_t i = 0; i < count; ++i) {
    if (last.at(offers[order[i]].product) == order[i]) taken.push_back(order[i]);
  }
  return taken;
}

}  // namespace heddle::quantize
