#include "schedule/groups/load_counts.h"

#include <unordered_set>

#include "heddle/ir/buffer.h"

namespace heddle {
namespace {

using Paths = std::unordered_map<const ExprNode*, double>;

/// Shared nodes below `e`, each behind those that it leads to. Whether a node is shared is asked once: other
/// threads may hold it, too, and let it go in the meantime.
void find_shared(const Expr& e, std::unordered_set<const ExprNode*>& seen,
                 std::vector<const Expr*>& found) {
  const bool shared = e->shared();
  if (shared && !seen.insert(e.get()).second) return;
  for_each_child(e, [&](const Expr& child) { find_shared(child, seen, found); });
  if (shared) found.push_back(&e);
}

void count(const Expr& e, double paths, Paths& to_shared, LoadCounts& loads);

void count_below(const Expr& e, double paths, Paths& to_shared, LoadCounts& loads) {
  const Load* load = e.as<Load>();
  if (load && load->buffer->producer()) loads[load->buffer->producer()] += paths;
  for_each_child(e, [&](const Expr& child) { count(child, paths, to_shared, loads); });
}

/// Adds the loads of `e`, to which so many paths lead. Those of shared nodes wait until all paths to
/// these are known.
void count(const Expr& e, double paths, Paths& to_shared, LoadCounts& loads) {
  const auto known = to_shared.find(e.get());
  if (known != to_shared.end())
    known->second += paths;
  else
    count_below(e, paths, to_shared, loads);
}

}  // namespace

LoadCounts count_loads(const std::vector<Expr>& bodies) {
  std::unordered_set<const ExprNode*> seen;
  std::vector<const Expr*> shared;
  for (const Expr& body : bodies) find_shared(body, seen, shared);
  Paths to_shared;
  for (const Expr* e : shared) to_shared.emplace(e->get(), 0);
  LoadCounts loads;
  for (const Expr& body : bodies) count(body, 1, to_shared, loads);
  for (size_t i = shared.size(); i-- > 0;) {
    const Expr& e = *shared[i];
    count_below(e, to_shared.at(e.get()), to_shared, loads);
  }
  return loads;
}

}  // namespace heddle
