// The libraries' ways to compute a subject on a GPU: cuBLAS by its own choice, and cuBLASLt with all
// algorithms that its heuristic names, of which the caller keeps the fastest.
#pragma once

#include <string>
#include <vector>

#include "peers/peer_cublas.h"
#include "subjects/subjects.h"

namespace heddle::cli {

/// The names --peers takes for a GPU.
std::vector<std::string> gpu_peer_names();

/// The peer of this name for the problem, or the reason why there is none. With `tf32`, products of
/// f32 are rounded.
peers::CublasProduct gpu_peer(const Problem& problem, const std::string& name, bool tf32 = false);

}  // namespace heddle::cli
