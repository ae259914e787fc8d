// The kernels of tasks over dimensions in records, and as what a build takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/network/size_kernels.h"
#include "network/cut/sizes/family_tasks.h"

namespace heddle::network {

/// The name of a task; over dimensions without the size of its first place.
std::string family_name(const Network& network, size_t task);

/// The hash of what a task computes; over dimensions that of the declaration over them.
uint64_t declaration_hash(const Network& network, size_t task);

/// What Network::build compiles: of tasks over dimensions these kernels, of others the choice of
/// the plan or of create_schedule. Throws a User error for kernels of another network.
std::vector<TaskVariants> variants_of(const Network& network,
                                      const std::vector<TaskKernels>& kernels);

/// The same with the kernels of records, where there is no plan, the options allow records and there
/// are any. Other tasks over dimensions have the choices of create_schedule at their sizes.
std::vector<TaskVariants> usual_variants(const Network& network);

}  // namespace heddle::network
