// Rows of sequences in blocks of a common memory (Kwon et al. 2023, arXiv:2309.06180). A sequence has
// the blocks that its row of a table names, in order, and grows by another block where one is full. With
// a cache (blocks, slots, G, E), integers table (N, most) and lengths (N), and rows (N, n, G, E):
//
//   Tensor next = update(cache, rows, ops::paged_places(cache, table, lengths, n));
//   Tensor keys = ops::paged_rows(next, table);  // (N, G, most * slots, E)
//   Tensor y = ops::attention(q, keys, values, {.causal = true, .offsets = lengths}).result;
//
// A Network whose StateUpdate names cache and next stores the new rows in the memory of the cache. The
// rows that attention reads are no tensor of their own where their reader is one product.
#pragma once

#include "heddle/dsl/tensor.h"

namespace heddle::ops {

/// The places (N, n), i64, of n new rows of each sequence, for update (heddle/dsl/update.h): row j of
/// sequence i is row lengths(i) + j of it. A place is -1, to which nothing is written, where the table
/// has no such entry, or the entry is no block. Throws a User error for other ranks or types.
Tensor paged_places(const Tensor& cache, const Tensor& table, const Tensor& lengths, const Expr& n,
                    Where where = Where::current());

/// Where a row of a sequence is, by the table.
struct PagedRow {
  Expr block, slot;
};
/// The place of row `row` of sequence `sequence`, 0 <= row < most * slots. An entry that is no block stands for the
/// nearest one.
PagedRow paged_row(const Tensor& cache, const Tensor& table, const Expr& sequence, const Expr& row);

/// The rows of the sequences (N, G, most * slots, E), one block of the table behind the other. An
/// entry that is no block reads the nearest one, so what the caller does not want of it must be masked.
Tensor paged_rows(const Tensor& cache, const Tensor& table, Where where = Where::current());

}  // namespace heddle::ops
