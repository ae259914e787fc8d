#include "runtime/cuda/launch_record.h"

#include <algorithm>
#include <cstring>

namespace heddle::cuda {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

struct Recording {
  int device = 0;
  LaunchRecord record;
};
thread_local Recording* the_recording = nullptr;

}  // namespace

void LaunchRecord::add(const Launcher& launcher, const std::array<unsigned, 3>& grid,
                       const std::array<unsigned, 3>& block, std::span<void* const> params,
                       std::size_t first_map, std::size_t maps) {
  launches_.push_back({&launcher, grid, block, params_.size(), params.size()});
  for (std::size_t i = 0; i < params.size(); ++i) {
    const bool is_map = i >= first_map && i < first_map + maps;
    const std::size_t words = is_map ? sizeof(api::TensorMapBytes) / kWord : 1;
    params_.push_back({words_.size(), words});
    words_.resize(words_.size() + words);
    std::memcpy(&words_[params_.back().begin], params[i], words * kWord);
  }
}

std::vector<void*> LaunchRecord::params(std::size_t launch) {
  const Launch& l = launches_[launch];
  std::vector<void*> addresses;
  for (std::size_t i = 0; i < l.count; ++i)
    addresses.push_back(&words_[params_[l.first + i].begin]);
  return addresses;
}

std::span<const std::uint64_t> LaunchRecord::values_of(const Launch& launch) const {
  if (launch.count == 0) return {};
  const Param &first = params_[launch.first], &last = params_[launch.first + launch.count - 1];
  return std::span(words_).subspan(first.begin, last.begin + last.words - first.begin);
}

bool LaunchRecord::same_kernels(const LaunchRecord& other) const {
  return std::equal(launches_.begin(), launches_.end(), other.launches_.begin(),
                    other.launches_.end(), [](const Launch& a, const Launch& b) {
                      return a.launcher == b.launcher && a.block == b.block;
                    });
}

bool LaunchRecord::differs(std::size_t launch, const LaunchRecord& other) const {
  const Launch &here = launches_[launch], &there = other.launches_[launch];
  return here.grid != there.grid || !std::ranges::equal(values_of(here), other.values_of(there));
}

LaunchRecord record_launches(FunctionRef<void()> calls, int device) {
  Recording recording{device, {}};
  Recording* const outer = the_recording;
  the_recording = &recording;
  try {
    calls();
  } catch (...) {
    the_recording = outer;
    throw;
  }
  the_recording = outer;
  return std::move(recording.record);
}

LaunchRecord* record_of(int device) {
  return the_recording != nullptr && the_recording->device == device ? &the_recording->record
                                                                     : nullptr;
}

}  // namespace heddle::cuda
