// The tiles of shared memory that TMA copies to memory. It reads a tile as late as the program
// allows: when the thread that issued the copy waits for it. It sees what threads stored only after
// their fence and a barrier. The tickets of warp groups that add up parts of a result are here too.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "codegen/emulator/warp_groups.h"

namespace heddle::emu {

class BulkStores {
 public:
  explicit BulkStores(Machine& m) : m_(m) {}
  void start_block() { queues_.clear(); }
  /// Fails where TMA may still read the memory of the block.
  void finish_block();

  /// A tile that TMA copies from. Its storage keeps who stored what TMA does not see yet.
  void add_tile(Storage* s);
  /// `thread` fences what it stored in shared memory.
  void fence(int thread);
  /// A barrier of warp group `g`, or of the block.
  void sync_group(int g);
  void sync_block();

  void store(Box box);
  void commit(int thread);
  void wait(int thread, int pending);

  /// Whether the warp group that arrives at the ticket is the last of `all`.
  using Place = std::pair<const Storage*, std::int64_t>;
  bool arrive(Place ticket, std::int64_t all);
  /// The same, but a group that is not the last one does not arrive.
  bool arrive_if_last(Place ticket, std::int64_t all);
  /// Fails where a ticket waits for more arrivals.
  void finish_launch();

 private:
  struct Queue {
    std::vector<Box> open;
    std::vector<std::vector<Box>> groups;
  };
  void copy(const Box& box);

  Machine& m_;
  std::vector<Storage*> tiles_;
  std::map<int, Queue> queues_;  // by thread
  std::map<Place, std::int64_t> tickets_;
};

}  // namespace heddle::emu
