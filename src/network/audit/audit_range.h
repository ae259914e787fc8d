// The audit of a network over dimensions, at one of its sizes.
#pragma once

#include "heddle/network/audit.h"

namespace heddle::network {

/// Compares the kernels that run at these sizes with the machine, with each other, and with
/// `one_size`, the audit of `alone`, which is the network at these sizes.
Audit audit_range(const Network& network, const AuditOptions& options, const Network& alone,
                  const Audit& one_size);

}  // namespace heddle::network
