// `heddle tune MODEL --dims batch=1..4 --target cuda`, on an emulated GPU: all kernels of a range
// are tuned, and they race at the sizes of the range, where every kernel does nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "heddle/network/network.h"
#include "heddle/onnx/import.h"
#include "heddle/records/tophub.h"
#include "measure/cuda_testing.h"
#include "options/parse_line.h"
#include "runtime/cuda/fake_driver.h"
#include "source_dir.h"
#include "subjects/model_subject.h"
#include "support/files/file.h"
#include "tune/run_tune.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CudaNetworkTune : public ::testing::Test {
 protected:
  void SetUp() override {
    HEDDLE_SKIP_WITHOUT_NVRTC();
    if (!onnx_available()) GTEST_SKIP() << "built without protobuf";
    driver_.any_kernel = true;
    std::filesystem::create_directories(folder_);
    request_.subjects = {
        cli::with_dims(source_dir() + "/tutorials/data/digits.onnx", {"batch=1..3"})};
    request_.target = "cuda -gpu=h200";
    request_.budget = "60s";
    request_.log = folder_ + "/digits.jsonl";
    request_.no_warm_start = true;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string tune() {
    const auto measurer = emulated_measurer();
    std::ostringstream out;
    status_ = cli::run_tune(request_, {out},
                            [&](std::vector<TuneTask> tasks, const TuneOptions& options) {
                              TuneOptions o = options;
                              o.measurer = measurer.get();
                              o.max_trials = 2 * static_cast<int>(tasks.size());
                              o.batch = 2;
                              return tune_tasks(std::move(tasks), o);
                            });
    return out.str();
  }

  cuda::FakeDriver driver_;
  cuda::ScopedDriver installed_{&driver_.api()};
  std::string folder_ = ::testing::TempDir() + "cuda_network_" + std::to_string(::getpid());
  cli::Request request_ = cli::request_for("tune");
  int status_ = -1;
};

TEST_F(CudaNetworkTune, TunesTheKernelsOfARange) {
  const std::string out = tune();
  EXPECT_EQ(status_, 0) << out;
  EXPECT_THAT(out, HasSubstr("at batch = 1"));
  EXPECT_THAT(out, HasSubstr("at batch = 3"));
  EXPECT_THAT(out, Not(HasSubstr("problem")));
  EXPECT_THAT(read_file(request_.log), HasSubstr("\"family\"")) << "the race is recorded";
}

TEST_F(CudaNetworkTune, KernelsRaceAtTheSizesThatAreNamed) {
  request_.sizes = {"2"};
  const std::string out = tune();
  EXPECT_EQ(status_, 0) << out;
  const std::string log = read_file(request_.log);
  EXPECT_THAT(log, HasSubstr("\"sizes\":[2]"));
  EXPECT_THAT(log, Not(HasSubstr("\"sizes\":[3]")));
}

}  // namespace
}  // namespace heddle::testing
