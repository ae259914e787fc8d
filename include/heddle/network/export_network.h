// A network as a library of its own: for programs in C, Python or anything that calls C, on
// machines without Heddle.
//
//   OnnxModel model = import_onnx("resnet50.onnx");
//   Network net(model.outputs);
//   export_network(net, model.args(), "out",
//                  {.name = "resnet50", .arg_names = model.arg_names()});
//
// writes
//   out/libresnet50.so     the kernels, the plan of the steps, and the small runtime
//   out/resnet50.h         resnet50_open, resnet50_run, resnet50_close and the descriptions of
//                          inputs and outputs
//   out/resnet50.weights   the weights in one file that is mapped: as the kernels read them
//                          (packed), or for a GPU, where they are packed at open, as they are
//
// The functions of a network over dimensions take the sizes of the call: resnet50_run(network,
// size_batch, inputs, outputs).
//
// The library of a network for a GPU has machine code for that architecture, and opens NVIDIA's
// driver (libcuda.so.1, or what HEDDLE_LIBCUDA names) at run time. It has resnet50_run_on_gpu too,
// for arrays that are on the GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/network/network.h"
#include "heddle/network/size_kernels.h"

namespace heddle {

/// Options of export_network().
struct ExportNetworkOptions {
  /// The name of the files and the functions: a letter, then letters, digits and underscores, at
  /// most 200 of them.
  std::string name = "network";
  /// What the library calls its inputs and outputs, one name for each argument, of any characters.
  /// Empty: the names of the tensors.
  std::vector<std::string> arg_names = {};
  /// One schedule for each task, as for Network::build. Empty: those of create_schedule.
  std::vector<Schedule> schedules = {};
  /// The kernels of tasks over dimensions, as for Network::build. They are used in place of
  /// `schedules`.
  std::vector<TaskKernels> kernels = {};
  /// Whether opening the network reads all weights and compares their hash, so that a damaged file
  /// is an error. It takes about 0.3 s for each GB that is in memory. Without it only the length of
  /// the file and its head are compared, and weights are read when calls need them.
  bool check_weights = true;
};

/// The files that were written.
struct ExportedNetwork {
  std::string library, header, weights;  ///< paths
  int64_t library_bytes = 0, weights_bytes = 0;
  int64_t arena_bytes = 0;  ///< bytes that a call needs for the buffers between steps
  int steps = 0;
};

/// Writes the library. `args` are inputs and outputs of the network in call order. Every constant
/// must have its values (`constant`). The folder is created where it is missing. Files are written
/// completely or not at all. Throws a User error where a constant has no values, the name is not an
/// identifier or too long, there are not as many `arg_names` as arguments, the folder cannot be
/// written, or the network is for a CPU of another architecture. Throws a Runtime error where there
/// is no linker: the compiler driver `c++`, or the one that the environment variable CXX names,
/// makes the library. For a GPU NVRTC is needed, and no GPU.
ExportedNetwork export_network(const Network& network, const std::vector<Tensor>& args,
                               const std::string& folder, const ExportNetworkOptions& options = {});

}  // namespace heddle
