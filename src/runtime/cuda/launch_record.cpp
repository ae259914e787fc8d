#include "runtime/cuda/launch_record.h"

#include <algorithm>
#include <cstring>

namespace heddle::cuda {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t),
                      kMapWords = sizeof(api::TensorMapBytes) / kWord;

struct Recording {
  int device = 0;
  LaunchRecord record;
};
thread_local Recording* the_recording = nullptr;

}  // namespace

void LaunchRecord::add(const Launcher& launcher, const std::array<unsigned, 3>& grid,
                       const std::array<unsigned, 3>& block, std::span<void* const> params,
                       std::size_t first_map, std::size_t maps) {
  const std::size_t begin = words_.size();
  words_.resize(begin + params.size() + maps * (kMapWords - 1));
  std::uint64_t* to = words_.data() + begin;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const bool is_map = i >= first_map && i < first_map + maps;
    std::memcpy(to, params[i], (is_map ? kMapWords : 1) * kWord);
    to += is_map ? kMapWords : 1;
  }
  launches_.push_back(
      {&launcher, grid, block, params.size(), first_map, maps, begin, words_.size()});
}

std::vector<void*> LaunchRecord::params(std::size_t launch) {
  const Launch& l = launches_[launch];
  std::vector<void*> addresses;
  addresses.reserve(l.params);
  std::uint64_t* at = words_.data() + l.begin;
  for (std::size_t i = 0; i < l.params; ++i) {
    addresses.push_back(at);
    at += i >= l.first_map && i < l.first_map + l.maps ? kMapWords : 1;
  }
  return addresses;
}

std::span<const std::uint64_t> LaunchRecord::values_of(const Launch& launch) const {
  return std::span(words_).subspan(launch.begin, launch.end - launch.begin);
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
