// The named facts that the rule for contractions uses.
#pragma once

#include "cpu/products/contraction.h"
#include "heddle/schedule/choice.h"
#include "heddle/target/rule_constants.h"

namespace heddle::meta::cpu {

struct ContractionProblem {
  /// The reduction that becomes the innermost one in the register tile.
  struct Window {
    int64_t extent = 1;
    bool slides_along_rows = false;     ///< neighbouring rows of a tile read overlapping windows
    bool slides_along_vectors = false;  ///< so do neighbouring vectors
  };
  struct Operand {
    bool exists = false;
    bool constant = false;      ///< weights, or made of weights alone
    bool packable = false;      ///< the tile's axis is a dimension of it
    int64_t element_bytes = 4;  ///< bytes of an element; 4 where there is no operand
    int64_t bytes = 0;          ///< bytes of the whole operand
    int64_t batch_bytes = 0;    ///< bytes of one batch
  };
  /// Convolutions that are computed in blocks of this one.
  struct Images {
    bool hosted = false;
    bool by_channels = false;  ///< a block of channels reads these channels of the image alone
    int64_t rows = 1;          ///< extent of the axis of the result that blocks cut
    int64_t row_bytes = 1;     ///< bytes that are kept for each step along that axis
  };

  Target target;
  CpuConstants constants = {};  ///< by which the rule judges
  bool parallel = false;        ///< whether there is enough work for the threads
  // Rows and columns of the register tile, and what is outside of it. All extents in elements.
  int64_t lanes = 1;      ///< of a native vector of results
  int64_t rows = 1;       ///< extent of the row axis
  int64_t cols = 1;       ///< extent of the vector axis, or the columns of all blocks
  int64_t depth = 1;      ///< product of the extents of all reduce axes
  int64_t row_group = 1;  ///< consecutive rows that share a vector operand
  int64_t col_group = 1;  ///< consecutive columns that share the row operand
  int64_t reuse = 1;      ///< multiply-adds for each element of the vector operand
  int64_t results = 1;    ///< product of the extents of all spatial axes
  int64_t outer = 1;      ///< product of the extents of the axes that are neither rows nor vectors
  bool cols_in_blocks = false;    ///< the vector axis is one vector (Contraction::block_axis)
  bool has_other_rows = false;    ///< more axes along which the vector operand is reused (an image)
  int64_t other_rows = 1;         ///< product of the extents of those axes
  int64_t last_other_rows = 1;    ///< extent of the innermost of them
  bool rows_in_planes = false;    ///< the next group of rows is in other planes of the image
  Window window, channel_window;  ///< with the operands in place; with channels innermost
  int64_t channels = 0;  ///< number of channels of an image that has them in planes; else 0
  // Operands.
  Operand vector, row;
  bool vector_contiguous = false;  ///< along the vector axis
  int64_t vector_row_bytes = 0;    ///< from one step of the reduction to the next
  int64_t row_run = 0;             ///< elements of the row operand in a line along the reduction
  bool narrow = false;  ///< whether integer operands are widened before they are multiplied
  bool integers = false;
  int64_t largest_dot = 1;  ///< products that one instruction adds up
  // Ways in which the reduction may be cut.
  bool can_cut = false;
  bool scattered = false;  ///< vectors of 32-bit results go to as many lines, along which rows lie
  int64_t common_reduction = 0;   ///< the reduction that is a dimension of both operands; 0: none
  int64_t longest_reduction = 1;  ///< the extent of the longest reduce axis
  // Chains of products.
  bool hosts_chain = false;      ///< whether other products are computed within its blocks of rows
  bool chained = false;          ///< whether it hosts a chain or belongs to one
  bool attached = false;         ///< whether it is computed within a loop of another group
  bool block_has_batch = false;  ///< whether that loop has all rows of a batch
  int64_t chain_row_bytes = 1;   ///< bytes that the chain keeps for each row
  int64_t chain_batches = 1;
  int64_t chain_constant_bytes = 0;  ///< weights of all its products, which each block reads
  Images images;

  /// Whether a register tile may have so many vectors: it reads one row operand.
  bool may_have(int64_t vectors) const {
    return col_group >= cols || col_group % (vectors * lanes) == 0;
  }
  bool halves() const { return narrow && !integers; }
  NamedFeatures features() const;
};

ContractionProblem contraction_problem(const TemplateBuilder& t, const Contraction& c);

}  // namespace heddle::meta::cpu
