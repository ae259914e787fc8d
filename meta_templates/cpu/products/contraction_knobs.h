// The knobs of the schedule of a contraction, the values that they offer, and the combinations that
// are not allowed.
#pragma once

#include "cpu/products/contraction_rule.h"
#include "heddle/schedule/template.h"

namespace heddle::meta::cpu {

/// Knobs of the copies of operands. A knob that is not asked for is the constant 0.
struct CopyKnobs {
  Param channels_last;    ///< the image is copied with its channels innermost
  Param pack_vectors;     ///< PackVectors
  Param prefetch_panels;  ///< number of columns fetched ahead of the copied ones
  Param pack_broadcasts;  ///< PackBroadcasts
  Param prefetch_packed;  ///< number of steps that packed constants are fetched ahead
  Param widen_vectors, widen_broadcasts;  ///< the copy has the wider type
};

struct ContractionKnobs {
  Param location;              ///< attached: 0 at the root, n in the n-th place
  Param tile_rows, tile_cols;  ///< of a register tile, in elements
  Param tile_blocks;           ///< of a register tile; columns in blocks: in place of tile_cols
  Param unroll_k;              ///< steps of the reduction
  Param dot = 1;               ///< products that one instruction adds up
  Param row_block_tiles, col_block_tiles;  ///< of a block, in register tiles
  Param chain_block_rows;  ///< of a block that a chain goes through, in place of row_block_tiles
  Param other_block_rows;  ///< of a block, along the innermost of the other axes of rows
  Param stage_results;     ///< results of a block are stored by vectors first
  bool blocks_vector_rows = false;  ///< these are axes that the vector operand depends on
  Param reduction;                  ///< Reduction
  Param k_block, k_part;            ///< steps of the longest reduction a block, a part
  CopyKnobs copies;
  std::vector<int64_t> reductions{kWholeReduction};  ///< those offered
  bool block_has_batch = false;  ///< a block of a chain has all rows of a batch, by default

  bool offers(Reduction r) const {
    return std::find(reductions.begin(), reductions.end(), r) != reductions.end();
  }
};

/// Asks for all knobs, with the defaults of `choice`.
ContractionKnobs ask_contraction_knobs(TemplateBuilder& t, const Contraction& c,
                                       const ContractionProblem& p, const Choice& choice);

}  // namespace heddle::meta::cpu
