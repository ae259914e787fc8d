// The plan of what is fused: where the elements of each stage of a network are computed.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "heddle/dag/compute_dag.h"

namespace heddle::network {

/// Where the elements of a stage are computed. Stages that are not stored are computed in nodes that
/// end later.
enum class Place : uint8_t {
  InReaders,       ///< in the node of each stage that reads it
  InTemplate,      ///< likewise: a part of an attention, which one template computes
  FusedByChoice,   ///< likewise, because a choice says so; no other node takes it
  InNode,          ///< in one node, behind a product or at its end; no other node takes it
  Stored,          ///< it ends a node, which may go on along the element-wise stages behind it
  ClosedByChoice,  ///< it ends a node; another product computes the sum behind it
  PartOfWhole,     ///< it ends a node, and lies in the memory of a concat
  Whole,           ///< a concat whose parts lie in its memory: there is no node
};

/// Whether the results of a stage are in memory between nodes.
inline bool is_stored(Place p) { return p >= Place::Stored; }

/// A place for each stage, placeholders left out.
///
/// - An output, and a scan, is stored, or in a node that ends at an element-wise stage behind it
///   alone.
/// - A stored stage ends exactly one node, `Whole` none.
/// - A stage that is not stored is computed in the nodes in which its readers are. So is one that
///   depends on constants alone, whatever its place is: `prepare` computes it once for each node.
/// - A node goes on behind its product only along stages that read it element by element, and up to
///   a stage from which alone the rest of the network reads.
class FusionPlan {
 public:
  explicit FusionPlan(ComputeDag dag)
      : dag_(std::move(dag)), places_(static_cast<size_t>(dag_.size()), Place::InReaders) {}

  const ComputeDag& dag() const { return dag_; }
  Place at(int s) const { return places_[static_cast<size_t>(s)]; }
  void set(int s, Place p) { places_[static_cast<size_t>(s)] = p; }
  bool stored(int s) const { return is_stored(at(s)); }
  /// Whether the nodes of `s` are not decided: those of its readers, or one that goes on along it.
  bool is_free(int s) const { return at(s) <= Place::InTemplate; }
  /// Whether a node that reads `s` reads its results from memory.
  bool read_from_memory(int s) const;
  /// Whether `s` has one result and runs at every call, and nothing but its readers needs it.
  bool may_run_inside(int s) const;
  /// The stage that ends the node of `s`, where there is one such node.
  int end_of_node(int s) const;
  /// The stages that the node that ends at `end` computes, the last first; those of it that depend on
  /// constants alone included.
  std::vector<int> stages_of_node(int end) const;
  bool is_product(int s) const { return dag_.info(s).stage_class == StageClass::ComplexReduction; }
  /// How often product `reader` computes an element of `s`, if it computes what its windows read for
  /// each of their taps. What a tile of a product has loaded serves all its columns.
  double times_in_product(int reader, int s) const;
  /// The most of these for the products that read `s`, directly or through up to `moves` stages of
  /// their nodes that only move elements; 0 where there are none.
  double times_in_products(int s, int moves = 8) const;
  /// For each stage, whether it is stored.
  std::vector<char> stored_stages() const;

  /// Lets the node that ends at `s` go on along the element-wise stages behind it, up to the last
  /// one from which alone the rest reads:
  ///
  ///   conv -> norm -> relu -+-> pad -> conv       conv's node ends at relu: a convolution with its
  ///                         +----> add ...        epilogue
  ///
  /// or up to bytes, where what follows only makes the numbers of them that they stand for.
  void extend(int s);
  /// Keeps the stages from a reduction to `last`, the end of its node, from other nodes. Where two
  /// convolutions meet in a sum, one of them takes the sum and the stages after it:
  ///
  ///   conv -> bias -+                      a node that ends at bias
  ///   conv -> bias -+-> add -> relu        a node that ends at relu
  void keep_between(int reduction, int last);

 private:
  bool follows(int u, const std::vector<char>& region, int s) const;
  bool only_widens(const std::vector<int>& members, size_t from, size_t to) const;
  bool closed(const std::vector<int>& members, const std::vector<char>& region) const;

  ComputeDag dag_;
  std::vector<Place> places_;
};

}  // namespace heddle::network
