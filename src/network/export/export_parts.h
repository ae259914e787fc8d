// The parts of an export that come before and after its kernels.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "heddle/network/network.h"
#include "network/cut/sizes/family_tasks.h"
#include "network/export/library_text.h"

namespace heddle::network {

/// A checked request.
struct ExportRequest {
  const Network& network;
  std::vector<Tensor> args;         ///< inputs and outputs in call order
  std::vector<Schedule> schedules;  ///< one for each task
  std::string name;
  std::vector<std::string> arg_names;  ///< one for each argument
  bool check_weights = true;           ///< as in ExportNetworkOptions
  /// The kernels of each task, compiled from its schedules.
  std::vector<TaskVariants> variants = {};
  bool by_plan = false;  ///< the plan of the network chose them

  const Target& target() const { return schedules[0].target(); }
};

/// A folder for intermediate files within the target folder. It is removed at the end. Its path is
/// absolute, so that no program takes it for an option.
class ExportScratch {
 public:
  explicit ExportScratch(const std::string& folder);
  ~ExportScratch();
  ExportScratch(const ExportScratch&) = delete;
  ExportScratch& operator=(const ExportScratch&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The steps of a network before their weights have places.
struct PlacedSteps {
  /// Of each step's inputs and outputs: Argument, View, Arena, Turn, or Nothing for a constant.
  std::vector<std::vector<ProgramPlace>> places;
  std::vector<std::map<size_t, NDArray>> constants;  ///< of each step, by position
  std::vector<ProgramPlace> scratch = {};            ///< of each step's workspaces
  int64_t arena_bytes = 0;
  std::vector<ProgramView> views;
  std::vector<TurnPlace> turns = {};
  std::vector<ProgramLoop> loops = {};
};

/// Throws a User error for constants among the arguments, because an exported network contains its
/// constants. `steps` are the nodes of the network, or several of them as one, and `loops` are over these.
/// `scratch` is as plan_steps takes it.
PlacedSteps place_steps(const ExportRequest& request, const std::vector<NetworkNode>& steps,
                        const std::vector<NetworkLoop>& loops, const std::vector<int64_t>& scratch);

/// The library without steps: its name, target, inputs, outputs, sizes, version and plan.
LibrarySource interface_of(const ExportRequest& request);

/// Writes the files "library", "header" and "weights" into the scratch folder.
LibrarySource write_library(const ExportRequest& request, const ExportScratch& scratch);

}  // namespace heddle::network
