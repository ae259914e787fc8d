// The benchmark plan: the workloads of reports.
#include <utility>

#include "heddle/support/error.h"
#include "subjects/subjects.h"
#include "support/edit_distance.h"

namespace heddle::cli {
namespace {

std::vector<Workload> of(std::vector<std::string> subjects, DataType dtype = f32) {
  std::vector<Workload> out;
  for (std::string& s : subjects) out.push_back({std::move(s), dtype});
  return out;
}

std::string number(int64_t value) { return std::to_string(value); }

// The convolutions of ResNet-50, then two of them for 16 images.
std::vector<Workload> conv_workloads() {
  struct Layer {
    int n, c, size, k, r, stride, pad;
  };
  const Layer layers[] = {
      {1, 3, 224, 64, 7, 2, 3},    {1, 64, 56, 64, 1, 1, 0},   {1, 64, 56, 64, 3, 1, 1},
      {1, 64, 56, 256, 1, 1, 0},   {1, 256, 56, 64, 1, 1, 0},  {1, 256, 56, 128, 1, 1, 0},
      {1, 128, 56, 128, 3, 2, 1},  {1, 128, 28, 128, 3, 1, 1}, {1, 128, 28, 512, 1, 1, 0},
      {1, 512, 28, 128, 1, 1, 0},  {1, 256, 14, 256, 3, 1, 1}, {1, 256, 14, 1024, 1, 1, 0},
      {1, 1024, 14, 256, 1, 1, 0}, {1, 512, 7, 512, 3, 1, 1},  {1, 512, 7, 2048, 1, 1, 0},
      {1, 2048, 7, 512, 1, 1, 0},  {16, 64, 56, 64, 3, 1, 1},  {16, 256, 14, 256, 3, 1, 1}};
  std::vector<std::string> out;
  for (const Layer& l : layers) {
    out.push_back("conv2d:n=" + number(l.n) + ",c=" + number(l.c) + ",h=" + number(l.size) +
                  ",k=" + number(l.k) + ",r=" + number(l.r) + ",stride=" + number(l.stride) +
                  ",pad=" + number(l.pad) + ",layout=nhwc");
  }
  return of(out);
}

std::vector<Workload> depthwise_workloads() {
  struct Layer {
    int c, size, r, stride;
  };
  std::vector<std::string> out;
  for (const Layer& l : {Layer{32, 112, 3, 1}, Layer{144, 56, 3, 1}, Layer{576, 14, 3, 1},
                         Layer{960, 7, 3, 1}, Layer{96, 112, 3, 2}}) {
    out.push_back("depthwise_conv2d:n=1,c=" + number(l.c) + ",h=" + number(l.size) +
                  ",r=" + number(l.r) + ",stride=" + number(l.stride) + ",pad=" + number(l.r / 2) +
                  ",layout=nhwc");
  }
  return of(out);
}

std::vector<Workload> memory_workloads() {
  std::vector<std::string> out;
  for (const char* kind :
       {"row_sum", "column_sum", "full_sum", "argmax", "softmax", "log_softmax", "layer_norm",
        "rms_norm", "bias_gelu", "add_relu", "transpose", "concat"}) {
    for (const char* size : {"4096x4096", "16384x1024", "256x65536", "1000x1000", "197x768"}) {
      out.push_back(std::string(kind) + ":" + size);
    }
  }
  out.push_back("max_pool2d:n=1,c=64,h=112,r=3,stride=2,pad=1");
  out.push_back("global_avg_pool:n=1,c=2048,h=7");
  out.push_back("resize_bilinear:n=1,c=64,h=56,scale=2");
  return of(out);
}

std::vector<Workload> type_workloads() {
  std::vector<Workload> out;
  for (const char* subject : {"matmul:1024x1024x1024", "matmul:4096x4096x4096"}) {
    for (const DataType dtype : {bf16, f16}) out.push_back({subject, dtype});
  }
  out.push_back({"matmul:1024x1024x1024", i8});
  out.push_back({"conv2d:n=1,c=64,h=56,k=64,r=3,stride=1,pad=1,layout=nhwc", i8});
  return out;
}

}  // namespace

const std::vector<WorkloadList>& workload_lists() {
  static const std::vector<WorkloadList> lists = {
      {"matmul", "single products",
       of({"matmul:512x512x512", "matmul:1024x1024x1024", "matmul:2048x2048x2048",
           "matmul:128x4096x1024", "matmul:1x4096x4096", "matmul:3136x64x576",
           "matmul:784x128x1152", "matmul:196x256x2304", "matmul:49x512x4608",
           "matmul:1000x1000x1000", "matmul:127x511x255", "matmul:32x32x28672"})},
      {"batch_matmul", "stacks of products",
       of({"batch_matmul:12x128x128x64", "batch_matmul:12x128x64x128",
           "batch_matmul:96x512x512x64"})},
      {"conv", "2-d convolutions of ResNet-50", conv_workloads()},
      {"depthwise", "depthwise convolutions of MobileNet", depthwise_workloads()},
      {"conv_other", "transposed, dilated, grouped, 1-d and 3-d convolutions",
       of({"conv_transpose2d:n=1,c=512,h=4,k=256,r=4,stride=2,pad=1,layout=nhwc",
           "conv_transpose2d:n=1,c=256,h=8,k=128,r=4,stride=2,pad=1,layout=nhwc",
           "conv2d:n=1,c=256,h=28,k=256,r=3,stride=1,pad=2,dilation=2,layout=nhwc",
           "conv2d:n=1,c=128,h=56,k=128,r=3,stride=1,pad=1,groups=32,layout=nhwc",
           "conv1d:n=1,c=64,w=256,k=128,r=3,stride=1,pad=1,layout=nhwc",
           "conv3d:n=1,c=16,d=16,h=56,w=56,k=32,r=3,stride=1,pad=1,layout=nhwc"})},
      {"memory", "what memory bounds", memory_workloads()},
      {"fused", "several operators in one kernel",
       of({"conv_bn_relu:n=1,c=64,h=56,k=64,r=3,stride=1,pad=1,layout=nhwc",
           "matmul_bias_gelu:128x3072x768", "attention:12x128x64", "attention:12x512x64",
           "tbg:12x128x64"})},
      {"networks", "whole networks", of({"lenet:1", "lenet:16", "lenet:128"})},
      {"types", "other types than f32", type_workloads()},
  };
  return lists;
}

std::vector<Workload> workloads_of(const std::string& list) {
  std::vector<Workload> out;
  std::vector<std::string> names;
  for (const WorkloadList& l : workload_lists()) {
    names.push_back(l.name);
    if (list == l.name || list == "all") {
      out.insert(out.end(), l.workloads.begin(), l.workloads.end());
    }
  }
  if (out.empty()) {
    names.push_back("all");
    std::string hint = did_you_mean(list, names);
    if (!hint.empty()) hint += " ";
    throw_user_error("there is no list of workloads '" + list + "'", {},
                     hint + "the lists are " + join(names));
  }
  return out;
}

}  // namespace heddle::cli
