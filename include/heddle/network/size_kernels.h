// The kernels of a network over dimensions (dsl/dim.h), chosen by a race.
//
//   OnnxModel bert = import_onnx("bert.onnx", {.ranges = {{"seq", dim("seq", 1, 512)}}});
//   Network net(bert.outputs);
//   const auto kernels = choose_kernels(net, bert.dims, {.race_seconds = 60});
//   std::cout << to_text(kernels);                        // size -> kernel, expected slowdown
//   NetworkKernel run = net.build(bert.args(), kernels);
//   record_kernels(net, kernels, "bert.jsonl");           // for later builds
//
// Without a race each node has kernels chosen at up to four sizes (six for a GPU), with blocks of
// one form, and the one for the next larger size runs (Network::build).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heddle/family/choose.h"
#include "heddle/network/network.h"
#include "heddle/records/record.h"

namespace heddle {

/// The kernels of a task over dimensions.
struct TaskKernels {
  int task = 0;      ///< the first of its places in Network::tasks()
  std::string name;  ///< of the task, without sizes
  /// Without FamilyResult::kernel. Its times are those of all nodes of the task in one call.
  FamilyResult kernels;
};

/// Options of choose_kernels().
struct KernelRaceOptions {
  int max_kernels = 6;  ///< of each task
  /// Sizes of each dimension; the network is called at these and between them, as choose_family
  /// does. 0: four for one dimension, two each for more.
  int points = 0;
  /// The sizes that are expected, as in FamilyOptions.
  std::vector<FamilyPoint> histogram = {};
  double race_seconds = 60;  ///< for all calls; each size takes two rounds at least
  std::function<void(const std::string&)> progress = {};  ///< called with a line of text
};

/// Races the kernels of all tasks over dimensions in calls of the whole network, with random
/// inputs. For a GPU these are CUDA graphs, which events time. The candidates of a task are
/// `schedules` (one for each of Network::tasks(); empty: those of create_schedule) for all sizes,
/// as they are, and on a CPU with longer blocks and with shorter ones, and the kernels of the plan of
/// the network (Network::planned). At most `max_kernels` of
/// each task are kept, for the least expected slowdown, and a tree on the sizes names one. The
/// kernels of a plan for this target stay where others are not faster in calls of the whole; without
/// such a plan those of a build without a race stay.
/// Candidates whose weights do not fit into a third of the free memory are left out. `dims` are the
/// dimensions of the network in the order of the sizes of the histogram. Throws a User error for a
/// network of constant extents, for other dimensions, and for a GPU that is not here.
std::vector<TaskKernels> choose_kernels(const Network& network, const std::vector<Dim>& dims,
                                        const KernelRaceOptions& options = {},
                                        const std::vector<Schedule>& schedules = {});

/// Appends the kernels to a log of records. Network::build and export_network find them where that
/// log is searched (records/tophub.h), for the same ranges of sizes.
void record_kernels(const Network& network, const std::vector<TaskKernels>& kernels,
                    const std::string& log);

/// The kernels of the records that are searched; tasks without a record are left out.
std::vector<TaskKernels> recorded_kernels(const Network& network, const std::vector<Dim>& dims);

/// The kernels in a record of record_kernels, as to_json(FamilyResult) writes them; null for other
/// records.
const Json* kernels_in(const Record& record);

/// The time of a call at each size and the slowdown of the network, then a table for each task.
std::string to_text(const std::vector<TaskKernels>& kernels);
/// A list of tasks: name, and the family as to_json(FamilyResult) writes it.
Json to_json(const std::vector<TaskKernels>& kernels);

}  // namespace heddle
