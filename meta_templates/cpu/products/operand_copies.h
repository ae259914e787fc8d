// Copies of a contraction's operands, in the order in which its register tile reads them.
//
//   as it lies       w[k][v]
//   packed whole     p[v/tile][k][v%tile]          before all else; once for constants
//   packed panels    the same, of the columns of one register tile, when a block comes to it
//   in groups        p[v/tile][k/2][v%tile][k%2]   what one instruction adds up side by side
#pragma once

#include "cpu/products/contraction_knobs.h"

namespace heddle::meta::cpu {

class OperandCopies {
 public:
  /// With `parallel`, copies are shared among the threads.
  OperandCopies(TemplateBuilder& t, const Contraction& c, const ContractionKnobs& k, bool parallel)
      : t_(t), c_(c), sh_(c.shape), k_(k), parallel_(parallel) {}

  /// Writes the copies that `reader` reads, as the knobs say. Panels are copied at loop `panel` of
  /// `host`.
  void write(StageRef reader, StageRef host, Loop panel, bool channels_last);

  /// The same with groups of `size` products along the reduction contiguous. With `k_inner` the
  /// groups are innermost except for the tile.
  void write_groups(StageRef reader, int64_t size, bool k_inner);

 private:
  bool lies_in_groups(int64_t size) const;
  StageRef copy_of(const Access& a, StageRef reader);
  void copy_vectors(StageRef reader, StageRef host, Loop panel, bool channels_last);
  void copy_with_channels_last(StageRef reader);
  void fetch_ahead(StageRef reader, StageRef p, int dim);
  StageRef pack(const Access& a, int dim, Param tile, int inner, StageRef reader, bool squares,
                bool shared);
  std::vector<int> runs_of(const Access& a, int dim) const;
  void widen_in_place(const Access& a, StageRef reader);
  void pack_groups(const Access& a, int k_dim, int64_t size, int dim, Param tile, int last,
                   bool k_inner, StageRef reader, Param widen);
  void share_out(const Access& a, StageRef p, const std::vector<Loop>& order);

  TemplateBuilder& t_;
  const Contraction& c_;
  const ContractionShape& sh_;
  const ContractionKnobs& k_;
  bool parallel_;
};

}  // namespace heddle::meta::cpu
