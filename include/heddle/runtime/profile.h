// Where the time of a call is spent.
//
//   std::cout << kernel.profile({x, y});                 // one line
//   std::cout << network_kernel.profile({image, logits});
//
//   node                 share  in network    alone     cold  GFLOP/s   GB/s  of roof
//   conv2d+relu ...       41 %     1.20 ms  1.15 ms  1.31 ms     98.1    3.2     79 %
//
// "in network": the time within calls of the whole network. "alone": the node is called repeatedly
// with the same arrays, which caches hold if they fit. "cold": the node is called after other data
// went through the caches. "of roof": the least time that the machine's multiply-adds and a copy of
// as many bytes allow, over the time in the network. Rates count the arithmetic of the declaration.
// Winograd does less of it, and parts of a node's data may stay in a nearer cache than those of a
// copy: where that makes the least time longer than the time taken, the share is ">100 %".
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "heddle/runtime/kernel.h"

namespace heddle {

class Json;

/// A node of a network, or a kernel. Times are medians, in seconds.
struct ProfileRow {
  std::string name;
  double in_network_s = 0, alone_s = 0, cold_s = 0;
  double share = 0;             ///< share of the sum of all nodes in the network
  double flops = 0, bytes = 0;  ///< of a call
  double least_s = 0;           ///< least time that the roof allows; 0: not known
};

/// The times of the parts of a call.
struct Profile {
  std::vector<ProfileRow> rows;
  double call_s = 0;  ///< median time of the whole call, without timing inside
  int calls = 0;      ///< number of timed calls of the whole
  int threads = 1;

  std::string to_string() const;
  Json to_json() const;
};

/// Prints Profile::to_string.
std::ostream& operator<<(std::ostream& out, const Profile& profile);

}  // namespace heddle
