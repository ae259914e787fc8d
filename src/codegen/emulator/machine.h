// The state of a grid while it runs: memory with its checks, asynchronous copies, who and where.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/emulator/race.h"
#include "codegen/interpreter/program.h"
#include "heddle/lower/gpu_program.h"
#include "heddle/runtime/ndarray.h"

namespace heddle::emu {

using interp::Slot;

enum class State : std::uint8_t { Unwritten, Written, InFlight };

/// The elements of one buffer. Registers and shared memory are kept as values; what kernels share
/// lies in arrays.
struct Storage {
  Buffer buffer;
  std::int64_t size = 0;
  NDArray array;                 ///< Argument, Global
  std::vector<Slot> values;      ///< Shared: by element. Local: by element, then by thread
  std::vector<State> states;     ///< of `values` or `array`; empty: all written
  std::vector<History> history;  ///< empty: of one thread, or only read by this kernel

  /// Of an array: one element.
  Slot (*get)(const void* elements, std::int64_t position) = nullptr;
  void (*put)(void* elements, std::int64_t position, Slot value) = nullptr;

  void hold(const Buffer& b, NDArray contents, bool written);
  void hold(const Buffer& b, std::int64_t elements, int threads);
};

/// An Async store that waits for its group.
struct Copy {
  Storage* storage;
  std::int64_t position;
  Slot value;
};

/// One thread's asynchronous copies in order, and where its groups end.
struct CopyQueue {
  std::vector<Copy> copies;
  std::vector<std::size_t> groups;
};

class Machine {
 public:
  explicit Machine(const GpuKernel& kernel)
      : threads(static_cast<int>(kernel.block[0] * kernel.block[1] * kernel.block[2])),
        block_dim(kernel.block),
        grid_dim(kernel.grid),
        clock(threads) {}

  interp::Program program;
  const int threads;                                      ///< of a block
  const std::array<std::int64_t, 3> block_dim, grid_dim;  ///< along x, y, z
  Clock clock;
  std::array<std::int64_t, 3> block{};  ///< the one that runs
  int thread = -1;                      ///< the one that is evaluated, -1 for none

  std::array<std::int64_t, 3> thread_index(int t) const {
    return {t % block_dim[0], t / block_dim[0] % block_dim[1], t / block_dim[0] / block_dim[1]};
  }

  void start_block(const std::array<std::int64_t, 3>& at);

  // What `thread` does, at a position that is within bounds.
  Slot read(Storage& s, std::int64_t position) {
    const auto i = static_cast<std::size_t>(slot_of(s, position));
    if (!s.states.empty() && s.states[i] != State::Written) [[unlikely]]
      unreadable(s, position, s.states[i]);
    if (!s.history.empty()) {
      History& h = s.history[static_cast<std::size_t>(position)];
      if (const Access* a = clock.read(h, thread, program.context.statement)) [[unlikely]]
        race(s, position, h, *a, false);
    }
    return s.get != nullptr ? s.get(s.array.data(), position) : s.values[i];
  }
  void write(Storage& s, std::int64_t position, Slot value) {
    claim(s, position);
    settle(s, position, value);
  }

  /// An Async store: nobody may touch the element until `thread` has waited for it.
  void start_copy(Storage& s, std::int64_t position, Slot value);
  void commit_copies();
  void wait_for_copies(int pending);
  /// Fails where copies into `s` are under way.
  void check_settled(const Storage& s);

  [[noreturn]] void fail(const std::string& what) const { program.context.fail(what); }
  std::string name_of_thread(int t) const;

 private:
  std::int64_t slot_of(const Storage& s, std::int64_t position) const {
    return s.buffer->scope == Scope::Local ? position * threads + thread : position;
  }
  void claim(Storage& s, std::int64_t position) {
    const auto i = static_cast<std::size_t>(slot_of(s, position));
    if (!s.states.empty() && s.states[i] == State::InFlight) [[unlikely]]
      unreadable(s, position, State::InFlight);
    if (!s.history.empty()) {
      History& h = s.history[static_cast<std::size_t>(position)];
      if (const Access* a = clock.write(h, thread, program.context.statement)) [[unlikely]]
        race(s, position, h, *a, true);
    }
  }
  void settle(Storage& s, std::int64_t position, Slot value) {
    const auto i = static_cast<std::size_t>(slot_of(s, position));
    if (!s.states.empty()) s.states[i] = State::Written;
    if (s.put != nullptr) {
      s.put(s.array.data(), position, value);
    } else {
      s.values[i] = value;
    }
  }
  [[noreturn]] void unreadable(const Storage& s, std::int64_t position, State state) const;
  [[noreturn]] void race(const Storage& s, std::int64_t position, const History& h,
                         const Access& earlier, bool writes) const;

  std::vector<CopyQueue> copies_;  // by thread
};

}  // namespace heddle::emu
