// What the rule for contractions sees of one: facts with names, and nothing else.
#pragma once

#include "cpu/contraction.h"
#include "heddle/schedule/choice.h"

namespace heddle::meta::cpu {

struct ContractionProblem {
  /// The reduction that goes innermost in the register tile.
  struct Window {
    int64_t extent = 1;
    bool slides_along_rows = false;     ///< neighbouring rows of a tile read overlapping windows
    bool slides_along_vectors = false;  ///< so do neighbouring vectors
  };
  struct Operand {
    bool exists = false;
    bool constant = false;      ///< weights, or made of weights alone
    bool packable = false;      ///< the tile's axis is a dimension of it
    int64_t element_bytes = 4;  ///< where there is none, as for f32
    int64_t bytes = 0;          ///< all of it
    int64_t batch_bytes = 0;    ///< that of one batch
  };

  Target target;
  bool parallel = false;  ///< there is enough work for the threads
  // Rows and columns of the register tile, and what is outside of it. All extents in elements.
  int64_t lanes = 1;              ///< of a native vector of results
  int64_t rows = 1;               ///< along the row axis
  int64_t cols = 1;               ///< along the vector axis
  int64_t depth = 1;              ///< of all reduce axes together
  int64_t row_group = 1;          ///< consecutive rows that share a vector operand
  int64_t reuse = 1;              ///< multiply-adds an element of the vector operand
  int64_t results = 1;            ///< of all axes together
  int64_t outer = 1;              ///< of the axes that are neither rows nor vectors
  bool has_other_rows = false;    ///< more axes along which the vector operand is reused (an image)
  int64_t other_rows = 1;         ///< of all those together
  int64_t last_other_rows = 1;    ///< of the innermost
  bool rows_in_planes = false;    ///< the next group of rows is in other planes of the image
  Window window, channel_window;  ///< as the operands lie; with channels innermost
  int64_t channels = 0;           ///< of an image that has them in planes; 0: of no other
  // Operands.
  Operand vector, row;
  bool vector_contiguous = false;  ///< along the vector axis
  int64_t vector_row_bytes = 0;    ///< from one step of the reduction to the next
  int64_t row_run = 0;             ///< elements of the row operand in a line along the reduction
  bool narrow = false;             ///< widened before they are multiplied: of integers
  bool integers = false;
  int64_t largest_dot = 1;  ///< products that one instruction adds up
  // How the reduction may be cut.
  bool can_cut = false;
  int64_t longest_reduction = 1;  ///< the extent of the longest reduce axis
  // Chains of products.
  bool hosts_chain = false;      ///< others are computed within its blocks of rows
  bool chained = false;          ///< it hosts a chain, or is one of it
  bool attached = false;         ///< computed within a loop of another group
  bool block_has_batch = false;  ///< attached: that loop has all rows of a batch
  int64_t chain_row_bytes = 1;   ///< what the chain keeps of a row
  int64_t chain_batches = 1;

  bool halves() const { return narrow && !integers; }
  NamedFeatures features() const;
};

ContractionProblem contraction_problem(const TemplateBuilder& t, const Contraction& c);

}  // namespace heddle::meta::cpu
