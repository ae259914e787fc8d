// The rows of an audit before anything is tried: times of nodes, the machine's bounds, and rates of
// kernels of like shape.
#pragma once

#include <span>
#include <vector>

#include "heddle/network/audit.h"
#include "heddle/runtime/kernel.h"

namespace heddle::network {

/// The arithmetic and the bytes of all nodes of a row, and the least time that the roof allows them.
void set_work(AuditRow& row, const KernelWork& of_a_node);

/// Adds a bound to a row where that is below its time.
void add_bound(AuditRow& row, AuditReference bound);

/// The row whose nodes have the best rate of those that are like a row: the same template and
/// alternative, and arithmetic and bytes of a node within a factor of four, their quotient within
/// two. The row itself where none is better.
size_t best_of_like(std::span<const AuditRow> rows, size_t row);

/// Sets shares, and the bounds by the roof and by rows that are alike.
void set_bounds(std::vector<AuditRow>& rows);

}  // namespace heddle::network
