// What dispatch adds to a call: the times of several callables, interleaved, as a table.
#pragma once

#include <algorithm>
#include <cstdio>
#include <functional>
#include <span>
#include <vector>

#include "heddle/heddle.h"

namespace heddle::bench {

struct Callable {
  const char* what;
  std::function<void()> call;
};

/// Prints the median time of a call of each, and what it adds to the first.
inline void print_dispatch_table(std::span<const Callable> callables) {
  constexpr int kCalls = 20000, kRounds = 201;
  std::vector<std::vector<double>> ns(callables.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t c = 0; c < callables.size(); ++c) {
      const Timer timer;
      for (int i = 0; i < kCalls; ++i) callables[c].call();
      ns[c].push_back(timer.elapsed_s() / kCalls * 1e9);
    }
  }
  double base = 0;
  for (std::size_t c = 0; c < callables.size(); ++c) {
    std::nth_element(ns[c].begin(), ns[c].begin() + kRounds / 2, ns[c].end());
    const double median = ns[c][kRounds / 2];
    if (c == 0) base = median;
    std::printf("%-28s %7.1f ns a call", callables[c].what, median);
    if (c > 0) std::printf(", %+.1f", median - base);
    std::printf("\n");
  }
}

}  // namespace heddle::bench
