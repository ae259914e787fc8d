// The shipped trees as constant tables, so that a program has them without the folder of tophub.
// `heddle heuristic gen` writes the tables; a test compares them with tophub's files.
#include "heddle/heuristics/tree_choices.h"
#include "heuristics/trees/cuda_h100_cuda_reduce_columns.h"
#include "heuristics/trees/cuda_h100_cuda_split_reduction.h"
#include "heuristics/trees/llvm_emeraldrapids_location.h"

namespace heddle::learning {
namespace {

[[maybe_unused]] const bool kRegistered[] = {
    register_tree_table("cuda", "h100", trees::cuda_h100_cuda_reduce_columns),
    register_tree_table("cuda", "h100", trees::cuda_h100_cuda_split_reduction),
    // The H200 is the same processor with faster memory. On problems measured there the trees of
    // the H100 beat the rules too (docs/guide/heuristics.md).
    register_tree_table("cuda", "h200", trees::cuda_h100_cuda_reduce_columns),
    register_tree_table("cuda", "h200", trees::cuda_h100_cuda_split_reduction),
    register_tree_table("llvm", "emeraldrapids", trees::llvm_emeraldrapids_location,
                        trees::llvm_emeraldrapids_location_kinds),
};

}  // namespace
}  // namespace heddle::learning
