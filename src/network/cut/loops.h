// Loops of networks (dsl/repeat.h): which nodes are a turn, and where what a turn reads and writes lies.
//
//   whole -> [ row -> node -> node -> next ]  x T  -> all        nodes of a turn are consecutive, behind
//              before ^---------------'                          all that the loop reads
//
// A row lies in the memory of its whole, one row further in each turn. A state that is a row of results is
// read where the turn before wrote it. Any other has two buffers that turns write in alternation: the first
// turn reads `first`, and the last one writes `last`.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "heddle/network/network.h"
#include "heddle/support/function_ref.h"
#include "network/cut/cut_network.h"
#include "network/cut/memory/buffer_graph.h"
#include "network/cut/updates.h"
#include "network/fusion/extract.h"
#include "runtime/program/places.h"

namespace heddle::network {

/// Throws a User error about a loop.
[[noreturn]] void fail_loop(const Repeat& r, const std::string& what, const std::string& help);

/// Throws a User error where the loops are not consistent.
void check_loops(const std::vector<Repeat>& repeats);

/// Whether a loop says where `t` lies: it is no argument.
bool is_bound(const std::vector<Repeat>& repeats, const Tensor& t);
/// Whether `t` is computed for a loop: it is no argument.
bool is_of_loop(const std::vector<Repeat>& repeats, const Tensor& t);

/// The loops with these outputs in place of those that were declared, in the same order.
std::vector<Repeat> loops_over(std::vector<Repeat> repeats, const std::vector<Tensor>& declared,
                               const std::vector<Tensor>& outputs);

/// For each stage the number of the loop whose turns compute it, because it depends on what differs between
/// them; -1 for all others. Throws a User error where it depends on turns of two loops.
std::vector<int> loops_of_stages(const std::vector<Repeat>& repeats, const ComputeDag& graph);

/// How often a call runs a node that ends at each stage of `graph`: at these sizes, or at the largest where
/// they are not given. Empty without loops.
std::vector<double> runs_of_stages(const std::vector<Repeat>& repeats, const ComputeDag& graph,
                                   const std::vector<SizeValue>& at);

/// Lets turns read from memory what is alike in all of them, and takes arithmetic.
void compute_before_turns(const std::vector<Repeat>& repeats, const ComputeDag& graph,
                          FusionPlan& plan);

struct LoopOrder {
  std::vector<NetworkLoop> loops;
  /// The writes of states, as outputs, for which there is no order: all turns of a loop run between two
  /// nodes, or none.
  std::vector<size_t> copied = {};
};

/// Brings the nodes of each loop together, behind those that it waits for, and around `writes`.
/// `declared` are the outputs of the network under the names that loops have for them.
LoopOrder order_loops(const Updates& updates, const std::vector<StateWrite>& writes,
                      const std::vector<Tensor>& declared, CutNetwork& network);

/// Throws a User error where rows of loops do not begin where kernels for this target can read them.
void check_rows(const std::vector<Repeat>& repeats, const std::vector<Var>& sizes,
                const Target& target);

/// The same loops over steps, each of which consists of nodes of one loop or of none.
std::vector<NetworkLoop> loops_of_steps(const std::vector<NetworkLoop>& loops,
                                        const std::vector<std::vector<int>>& nodes_of_steps);

/// Where what loops read and write lies.
class LoopPlaces {
 public:
  LoopPlaces(const std::vector<Repeat>& repeats, const std::vector<NetworkLoop>& loops,
             const std::vector<Var>& sizes);

  /// The tensors in whose memory these lie.
  std::vector<Tensor> memory_of(const std::vector<Tensor>& list) const;
  /// Buffers that a loop reads or writes in several turns live as long as it runs.
  void extend(const BufferGraph& buffers, std::vector<BufferLifetime>& lifetimes) const;
  /// The place of `t`, where a loop says it. `place_of` gives those of other tensors.
  std::optional<ProgramPlace> find(const Tensor& t,
                                   FunctionRef<ProgramPlace(const Tensor&)> place_of,
                                   std::vector<TurnPlace>& turns);
  /// The loops as the program has them.
  std::vector<ProgramLoop> loops() const;

 private:
  using Key = std::pair<const Operation*, int>;  ///< operation and output
  struct Bound {
    Tensor even, odd, first = {}, last = {};  ///< as in TurnPlace
    SizeSum row_bytes = {};
    int back = 0;
    bool reverse = false;
    int number = -1;  ///< among the TurnPlaces
  };
  void add(const Tensor& t, Bound bound) { bound_[{t.op(), t.index()}] = std::move(bound); }
  void add_states(const Repeat& repeat);

  const std::vector<NetworkLoop>& loops_;
  const std::vector<Var>& sizes_;
  std::map<Key, Bound> bound_;
};

}  // namespace heddle::network
