// The parts of a NetworkKernel: a program, and which nodes its steps are.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "heddle/network/network.h"
#include "runtime/program/program.h"

namespace heddle {

/// What was picked of steps with two variants, by step.
struct StepPicks {
  std::mutex mutex;
  std::map<size_t, PickRow> rows;
};

struct NetworkKernel::Impl {
  Impl(ProgramParts parts, std::vector<std::vector<int>> nodes_of_steps,
       NetworkBuildReport of_build)
      : program(std::move(parts)), nodes(std::move(nodes_of_steps)), report(of_build) {
    report.prepared_bytes = program.prepared_bytes();
  }

  Program program;
  std::vector<std::vector<int>> nodes;  ///< of each step, as positions in Network::nodes()
  NetworkBuildReport report;
  std::shared_ptr<StepPicks> picks;  ///< null where nothing is to be settled

  const std::vector<ProgramStep>& steps() const { return program.parts().steps; }
  /// The seconds of each node, of those of each step. Nodes that share a launch have equal parts.
  std::vector<double> by_node(std::span<const double> steps) const;
};

}  // namespace heddle
