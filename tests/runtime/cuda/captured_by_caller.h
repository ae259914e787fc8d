// A caller's own stream, and the graph that the caller captures from it, by the driver alone.
#pragma once

#include <gtest/gtest.h>

#include "runtime/cuda/fake_driver.h"

namespace heddle::cuda {

class CallersStream {
 public:
  explicit CallersStream(const api::Api& api) : api_(api) {
    EXPECT_EQ(api_.stream_create(&stream_, api::kStreamNonBlocking), api::kSuccess);
  }
  ~CallersStream() {
    for (api::GraphExec graph : graphs_) api_.graph_exec_destroy(graph);
    api_.stream_destroy(stream_);
  }
  CallersStream(const CallersStream&) = delete;
  CallersStream& operator=(const CallersStream&) = delete;
  api::StreamHandle handle() const { return stream_; }

  /// Captures the calls in the mode that torch.cuda.graph takes.
  template <typename Calls>
  api::GraphExec capture(Calls&& calls) {
    constexpr int kGlobal = 0;  // CU_STREAM_CAPTURE_MODE_GLOBAL
    EXPECT_EQ(api_.stream_begin_capture(stream_, kGlobal), api::kSuccess);
    calls();
    api::GraphHandle recorded = nullptr;
    EXPECT_EQ(api_.stream_end_capture(stream_, &recorded), api::kSuccess);
    graphs_.emplace_back();
    EXPECT_EQ(api_.graph_instantiate(&graphs_.back(), recorded, 0), api::kSuccess);
    api_.graph_destroy(recorded);
    return graphs_.back();
  }
  void launch(api::GraphExec graph) const {
    EXPECT_EQ(api_.graph_launch(graph, stream_), api::kSuccess);
  }

 private:
  const api::Api& api_;
  api::StreamHandle stream_ = nullptr;
  std::vector<api::GraphExec> graphs_;
};

}  // namespace heddle::cuda
