// The state of a running grid: memory with its checks, asynchronous copies, the current block and
// thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/emulator/bulk_stores.h"
#include "codegen/emulator/race.h"
#include "codegen/emulator/warp_groups.h"
#include "codegen/interpreter/program.h"
#include "heddle/lower/gpu_program.h"
#include "heddle/runtime/ndarray.h"

namespace heddle::emu {

using interp::Slot;

enum class State : std::uint8_t { Unwritten, Written, InFlight };

/// The elements of one buffer. Registers and shared memory are stored as values, memory that
/// kernels share as arrays.
struct Storage {
  Buffer buffer;
  std::int64_t size = 0;
  NDArray array;                   ///< Argument, Global
  std::int64_t shared_offset = 0;  ///< Shared: the byte of the block's memory where it begins
  std::vector<Slot> values;    ///< Shared: one for each element. Local: by element, then by thread
  std::vector<State> states;   ///< of `values` or `array`; empty: all written
  History* history = nullptr;  ///< history of the first element; null where one thread uses the
                               ///< buffer, or all only read it
  int histories = 1;           ///< number of histories for each element
  /// Of a tile that TMA copies from, for each element: 0 where TMA sees it, t + 1 where thread t
  /// stored it since, -(t + 1) where that thread fenced it too. Empty for other buffers.
  std::vector<int> unseen;

  /// Reads one element of an array.
  Slot (*get)(const void* elements, std::int64_t position) = nullptr;
  void (*put)(void* elements, std::int64_t position, Slot value) = nullptr;

  void hold(const Buffer& b, NDArray contents, bool written);
  void hold(const Buffer& b, std::int64_t elements, int threads);
};

/// An asynchronous store that waits for its group.
struct Copy {
  Storage* storage;
  std::int64_t position;
  Slot value;
};

/// The asynchronous copies of one thread in order, and the ends of its groups.
struct CopyQueue {
  std::vector<Copy> copies;
  std::vector<std::size_t> groups;
};

class Machine {
 public:
  explicit Machine(const GpuKernel& kernel)
      : cluster(kernel.cluster),
        threads(static_cast<int>(cluster * kernel.block[0] * kernel.block[1] * kernel.block[2])),
        block_dim{kernel.block[0] * cluster, kernel.block[1], kernel.block[2]},
        grid_dim{kernel.grid[0] / cluster / kernel.pair, kernel.grid[1], kernel.grid[2]},
        clock(threads),
        groups(*this),
        stores(*this),
        slots_(kernel.shared),
        shared_bytes_(kernel.shared_bytes) {
    for (const auto& slot : slots_) {
      piece_ = std::min<std::int64_t>(piece_, slot.buffer->dtype.bytes());
    }
    shared_.resize(static_cast<std::size_t>(shared_bytes_ / piece_ + 1));
  }

  interp::Program program;
  const std::int64_t cluster;  ///< blocks that run together, as one with all their threads
  const int threads;           ///< of a block, or of a cluster
  const std::array<std::int64_t, 3> block_dim, grid_dim;  ///< along x, y, z
  Clock clock;
  WarpGroups groups;
  BulkStores stores;
  std::array<std::int64_t, 3> block{};  ///< the running block
  int rank = 0;                         ///< of the running block in its pair
  int thread = -1;                      ///< the thread that is evaluated, -1 for none

  std::array<std::int64_t, 3> thread_index(int t) const {
    return {t % block_dim[0], t / block_dim[0] % block_dim[1], t / block_dim[0] / block_dim[1]};
  }

  /// Gives a Shared buffer its place until `leave_shared`. Fails where the kernel gives it none, or
  /// where it overlaps another buffer in scope.
  void enter_shared(Storage& s);
  void leave_shared() { live_.pop_back(); }

  void start_block(const std::array<std::int64_t, 3>& at);
  /// Fails where a block could end while another block of its cluster still writes to its memory.
  void finish_block();
  /// Begins the tail of the kernel. Its block sees all writes of the other blocks.
  void start_tail();

  // For a cluster: all its blocks have begun. The second function is its barrier.
  void started() { started_ = true; }
  void sync_block();

  // Accesses by `thread` at a position that is within bounds.
  Slot read(Storage& s, std::int64_t position) {
    const auto i = static_cast<std::size_t>(slot_of(s, position));
    if (!s.states.empty() && s.states[i] != State::Written) [[unlikely]]
      unreadable(s, position, s.states[i]);
    if (s.history != nullptr) note(s, position, false);
    return s.get != nullptr ? s.get(s.array.data(), position) : s.values[i];
  }
  void write(Storage& s, std::int64_t position, Slot value) {
    claim(s, position);
    settle(s, position, value);
  }

  /// An asynchronous store. No thread may access the element until `thread` has waited for it.
  void start_copy(Storage& s, std::int64_t position, Slot value);
  /// An asynchronous store to all blocks of a cluster. No thread may access the element until it is
  /// received.
  void send(Storage& s, std::int64_t position, Slot value);
  /// All threads have waited for the sent elements, which must be all elements of their buffers.
  void receive();
  void commit_copies();
  void wait_for_copies(int pending);
  /// Fails where copies into `s` are in flight.
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
    if (s.history != nullptr) note(s, position, true);
    if (cluster > 1 && s.buffer->scope == Scope::Shared) store_in_cluster(s, position);
  }
  void store_in_cluster(const Storage& s, std::int64_t position);
  void settle(Storage& s, std::int64_t position, Slot value) {
    const auto i = static_cast<std::size_t>(slot_of(s, position));
    if (!s.states.empty()) s.states[i] = State::Written;
    if (!s.unseen.empty()) s.unseen[i] = thread + 1;
    if (s.put != nullptr) {
      s.put(s.array.data(), position, value);
    } else {
      s.values[i] = value;
    }
  }
  /// Reports an access to the race detector.
  void note(const Storage& s, std::int64_t position, bool writes) {
    History* h = s.history + position * s.histories;
    for (History* end = h + s.histories; h != end; ++h) {
      // The contents are unrelated to those of another block in the same place.
      if (s.buffer->scope == Scope::Shared && clock.of_other_block(*h)) *h = {};
      const StmtNode* statement = program.context.statement;
      const Access* a =
          writes ? clock.write(*h, thread, statement) : clock.read(*h, thread, statement);
      if (a != nullptr) [[unlikely]]
        race(s, position, *h, *a, writes);
    }
  }
  [[noreturn]] void unreadable(const Storage& s, std::int64_t position, State state) const;
  [[noreturn]] void race(const Storage& s, std::int64_t position, const History& h,
                         const Access& earlier, bool writes) const;

  bool started_ = false;        // all blocks of the cluster
  std::string unseen_;          // an element stored in other blocks' memory since the last barrier
  std::vector<Storage*> sent_;  // and not yet received
  std::vector<CopyQueue> copies_;  // by thread
  // Histories of shared memory, where one buffer may follow another in the same place: one for each
  // piece as large as the smallest element.
  std::vector<History> shared_;
  std::int64_t piece_ = 16;  // bytes
  struct Live {
    const BufferNode* buffer;
    std::int64_t begin, end;
  };
  std::vector<Live> live_;  // around what is compiled
  std::vector<GpuKernel::SharedSlot> slots_;
  std::int64_t shared_bytes_;
};

}  // namespace heddle::emu
