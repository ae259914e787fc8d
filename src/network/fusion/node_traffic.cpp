#include "network/fusion/node_traffic.h"

namespace heddle::network {
namespace {

/// The bytes of the results of nodes that are alive while each node runs.
std::vector<double> alive_at(const std::vector<NodeTraffic>& nodes,
                             const std::vector<double>& bytes) {
  std::vector<size_t> last(bytes.size());  // the node that touches a result last
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (const int r : nodes[n].touched) last[r] = n;
  }
  double alive = 0;
  std::vector<double> at;
  std::vector<char> written(bytes.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (const int r : nodes[n].written) {
      written[r] = 1;
      alive += bytes[r];
    }
    at.push_back(alive);
    for (const int r : nodes[n].touched) {
      if (written[r] != 0 && last[r] == n) alive -= bytes[r];
    }
  }
  return at;
}

}  // namespace

std::vector<double> moving_seconds(const std::vector<NodeTraffic>& nodes,
                                   const std::vector<double>& bytes, const MachineRates& rates) {
  double in_all = 0;
  for (const NodeTraffic& node : nodes) in_all += node.bytes;
  const std::vector<double> alive = alive_at(nodes, bytes);
  std::vector<double> last(bytes.size(), -1);  // bytes that had been touched by then
  std::vector<double> seconds;
  double passed = 0;
  for (const NodeTraffic& node : nodes) {
    passed += node.bytes;
    const double around = alive[seconds.size()];
    double& moving = seconds.emplace_back(0);
    const auto move = [&](int r, double first) {
      moving += rates.seconds_of(bytes[r], last[r] < 0 ? first : passed - last[r]);
      last[r] = passed;
    };
    for (const int r : node.written) move(r, around);
    for (const int r : node.touched) {
      if (last[r] != passed) move(r, in_all);
    }
  }
  return seconds;
}

}  // namespace heddle::network
